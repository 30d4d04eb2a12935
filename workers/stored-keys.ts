import * as z from "zod";
import type { TenantId } from "../src/protocol/ids.ts";
import { toRow } from "../src/tenants/configuration-rows.ts";
import type { KeyScope } from "../src/tenants/key-scope.ts";
import { DEFAULT_KEY_SCOPES } from "../src/tenants/key-scope.ts";
import type { LiveKey } from "../src/tenants/live-configuration.ts";
import { CONFIGURATION_LIMITS } from "../src/tenants/live-configuration.ts";
import type { SqlRow } from "./stored-configuration.ts";
import { digestOfRow, readSqlRow } from "./stored-configuration.ts";

/** Ends of keys that are remembered; by then those that nothing mentions any more are forgotten. */
const ENDINGS_MAX = 200_000;
/** Last uses that are remembered; the oldest are forgotten. */
const USES_MAX = 250_000;
/** A use is written down once in so long. */
const USE_WRITTEN_EVERY_MS = 300_000;
/** A key that was rotated out is listed for so long after its end. */
const ENDED_KEPT_MS = 30 * 86_400_000;

/**
 * Keys that were issued, beside those of the configuration, and what was said of either since. None of it
 * belongs to a version: who goes back to an earlier configuration must not lock out who got a key since,
 * nor let in again whose key was revoked. Who is removed takes the keys along, that is all: they wait apart, where
 * nothing looks for keys, for a rollback that brings back the very life of the tenant that they are of.
 */
const SCHEMA = `
CREATE TABLE IF NOT EXISTS issued_keys (
  id TEXT PRIMARY KEY,
  kind TEXT NOT NULL DEFAULT 'key',
  tenant_id TEXT NOT NULL,
  name TEXT NOT NULL,
  value TEXT NOT NULL,
  digest TEXT NOT NULL,
  created_at_ms INTEGER NOT NULL,
  created_by TEXT NOT NULL
) WITHOUT ROWID;
CREATE UNIQUE INDEX IF NOT EXISTS issued_keys_names ON issued_keys (tenant_id, name);
CREATE TABLE IF NOT EXISTS departed_keys (
  id TEXT PRIMARY KEY,
  kind TEXT NOT NULL DEFAULT 'key',
  tenant_id TEXT NOT NULL,
  name TEXT NOT NULL,
  value TEXT NOT NULL,
  digest TEXT NOT NULL,
  created_at_ms INTEGER NOT NULL,
  created_by TEXT NOT NULL,
  life INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS departed_keys_lives ON departed_keys (tenant_id, life);
CREATE TABLE IF NOT EXISTS key_endings (
  hash TEXT PRIMARY KEY,
  ends_at_ms INTEGER NOT NULL,
  said_at_ms INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS key_endings_said ON key_endings (said_at_ms);
CREATE TABLE IF NOT EXISTS key_uses (
  hash TEXT PRIMARY KEY,
  at_ms INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS key_uses_at ON key_uses (at_ms)`;

const KEY_COLUMNS = "id, kind, tenant_id, name, value, digest, created_at_ms, created_by";

/** A key as its administrator sees it. Its hash is nobody's business. */
export interface KeyRecord {
  readonly name: string;
  /** Whether `sluice.yaml` has it or the admin API has issued it. */
  readonly source: "file" | "issued";
  readonly scopes: readonly KeyScope[];
  readonly modelIds?: readonly string[];
  readonly classNames?: readonly string[];
  readonly notBeforeAtMs?: number;
  /** When it ends, by what it was given or by what was said since. */
  readonly expiresAtMs?: number;
  readonly createdAtMs?: number;
  readonly createdBy?: string;
  /** To some minutes; absent: never, or too long ago. */
  readonly lastUsedAtMs?: number;
}

type KeyRow = SqlRow & {
  source: "file" | "issued";
  created_at_ms: number | null;
  created_by: string | null;
  ends_at_ms: number | null;
  used_at_ms: number | null;
};

/** A file's key hides an issued one of the same hash: the file has taken it over. */
const KEYS_OF_TENANT = `
SELECT key.*, ends_at_ms, key_uses.at_ms AS used_at_ms FROM (
  SELECT id, kind, tenant_id, name, value, digest, 'file' AS source,
    NULL AS created_at_ms, NULL AS created_by
    FROM live_rows WHERE kind = 'key' AND tenant_id = ?1
  UNION ALL
  SELECT id, kind, tenant_id, name, value, digest, 'issued', created_at_ms, created_by
    FROM issued_keys AS issued WHERE tenant_id = ?1
    AND NOT EXISTS (SELECT 1 FROM live_rows WHERE kind = 'key' AND live_rows.id = issued.id)
  ) AS key
  LEFT JOIN key_endings ON key_endings.hash = key.id
  LEFT JOIN key_uses ON key_uses.hash = key.id`;

/** The keys that the admin API issues, and the ends and last uses of all keys. */
export class StoredKeys {
  readonly #sql: SqlStorage;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
    sql.exec(SCHEMA);
  }

  /** Lists a tenant's keys by name, those behind `after`, without those that ended long ago. */
  list(tenantId: TenantId, after: string, countMax: number, nowMs: number): KeyRecord[] {
    const query = `${KEYS_OF_TENANT} WHERE name > ?2 AND IFNULL(ends_at_ms, ?3) > ?4
      ORDER BY name LIMIT ?5`;
    const never = Number.MAX_SAFE_INTEGER;
    return this.#sql
      .exec<KeyRow>(query, tenantId, after, never, nowMs - ENDED_KEPT_MS, countMax)
      .toArray()
      .map(toRecord);
  }

  find(
    tenantId: TenantId,
    name: string,
  ): { readonly key: LiveKey; readonly record: KeyRecord } | undefined {
    const [row] = this.#sql
      .exec<KeyRow>(`${KEYS_OF_TENANT} WHERE name = ?2`, tenantId, name)
      .toArray();
    return row && { key: readKey(row), record: toRecord(row) };
  }

  /** Those that wait for their tenant too, since they may come back. */
  countIssued(): number {
    const query = `SELECT (SELECT COUNT(*) FROM issued_keys) + (SELECT COUNT(*) FROM departed_keys) AS n`;
    return this.#sql.exec<{ n: number }>(query).one().n;
  }

  /** Takes in a key whose name is free. */
  issue(key: LiveKey, by: { readonly actor: string; readonly nowMs: number }): void {
    this.#sql.exec(
      `DELETE FROM issued_keys WHERE id IN
        (SELECT hash FROM key_endings WHERE ends_at_ms <= ?)`,
      by.nowMs - ENDED_KEPT_MS,
    );
    const row = toRow({ kind: "key", thing: key });
    this.#sql.exec(
      `INSERT INTO issued_keys (id, tenant_id, name, value, digest, created_at_ms, created_by)
        VALUES (?, ?, ?, ?, ?, ?, ?)`,
      row.id,
      row.tenantId,
      row.name,
      row.value,
      digestOfRow(row),
      by.nowMs,
      by.actor,
    );
  }

  /** Has a key end at an instant, unless it was to end sooner. Nothing lets it live longer again. */
  end(hash: string, endsAtMs: number, nowMs: number): void {
    this.#sql.exec(
      `INSERT INTO key_endings VALUES (?1, ?2, ?3) ON CONFLICT (hash) DO UPDATE
        SET ends_at_ms = MIN(ends_at_ms, ?2), said_at_ms = ?3`,
      hash,
      endsAtMs,
      nowMs,
    );
    this.#pruneEndings();
  }

  /**
   * Has issued keys go with their tenants, and come back with them, as `TenantLives` has it of the version that
   * went live just now. A key whose name a key of the file has stays away.
   */
  follow(version: number): { readonly departed: number; readonly returned: number } {
    const isOver = `tenant_id IN (SELECT tenant_id FROM tenant_lives WHERE since_version = ?1
      UNION SELECT * FROM (SELECT tenant_id FROM issued_keys
        EXCEPT SELECT id FROM live_rows WHERE kind = 'tenant'))`;
    this.#sql.exec(
      `INSERT INTO departed_keys SELECT ${KEY_COLUMNS}, IFNULL((SELECT life FROM tenant_lives AS told
          WHERE told.tenant_id = issued_keys.tenant_id AND since_version < ?1
          ORDER BY since_version DESC LIMIT 1), 0)
        FROM issued_keys WHERE ${isOver}`,
      version,
    );
    this.#sql.exec(`DELETE FROM issued_keys WHERE ${isOver}`, version);
    const departed = this.#countChanged();
    this.#sql.exec(
      `INSERT INTO issued_keys SELECT ${KEY_COLUMNS} FROM departed_keys AS key WHERE EXISTS (
          SELECT 1 FROM tenant_lives AS led WHERE led.tenant_id = key.tenant_id
          AND led.since_version = ? AND led.life = key.life)
        AND NOT EXISTS (SELECT 1 FROM live_rows AS taken WHERE kind = 'key'
          AND taken.tenant_id = key.tenant_id AND taken.name = key.name AND taken.id <> key.id)`,
      version,
    );
    this.#sql.exec("DELETE FROM departed_keys WHERE id IN (SELECT id FROM issued_keys)");
    return { departed, returned: this.#countChanged() };
  }

  /** Forgets the keys of lives that no version has any more that one could go back to. */
  prune(): void {
    this.#sql.exec(
      `DELETE FROM departed_keys WHERE NOT EXISTS (SELECT 1 FROM tenant_lives AS led
        WHERE led.tenant_id = departed_keys.tenant_id AND led.life = departed_keys.life)`,
    );
  }

  /** Takes an issued key away, so that its name is free again. */
  withdraw(hash: string): void {
    this.#sql.exec("DELETE FROM issued_keys WHERE id = ?", hash);
  }

  /** Writes down that keys are in use, as far as that is news. */
  noteUses(hashes: readonly string[], nowMs: number): void {
    if (hashes.length === 0) return;
    this.#sql.exec(
      `INSERT INTO key_uses SELECT value, ?2 FROM json_each(?1) WHERE TRUE
        ON CONFLICT (hash) DO UPDATE SET at_ms = ?2 WHERE at_ms < ?3`,
      JSON.stringify(Hashes.parse(hashes)),
      nowMs,
      nowMs - USE_WRITTEN_EVERY_MS,
    );
    this.#keepNewest("key_uses", "at_ms", USES_MAX, "TRUE");
  }

  /** Those of the file's keys must stay ended, or the next `apply` would bring them back to life. */
  #pruneEndings(): void {
    const isForgettable = `
      NOT EXISTS (SELECT 1 FROM live_rows WHERE kind = 'key' AND id = hash)
      AND NOT EXISTS (SELECT 1 FROM past_rows WHERE kind = 'key' AND id = hash)
      AND NOT EXISTS (SELECT 1 FROM issued_keys WHERE id = hash)
      AND NOT EXISTS (SELECT 1 FROM departed_keys WHERE id = hash)`;
    this.#keepNewest("key_endings", "said_at_ms", ENDINGS_MAX, isForgettable);
  }

  #countChanged(): number {
    return this.#sql.exec<{ n: number }>("SELECT changes() AS n").one().n;
  }

  #keepNewest(table: string, age: string, countMax: number, condition: string): void {
    this.#sql.exec(
      `DELETE FROM ${table} WHERE hash IN (SELECT hash FROM ${table} WHERE ${condition}
        ORDER BY ${age} LIMIT MAX(0, (SELECT COUNT(*) FROM ${table}) - ?))`,
      countMax,
    );
  }
}

/** Issued keys that there may be, beside those of the configuration. */
export const ISSUED_KEYS_MAX = CONFIGURATION_LIMITS.keysMax;

const Hashes = z.array(z.string().length(64)).max(10_000);

function readKey(row: SqlRow): LiveKey {
  const entry = readSqlRow(row);
  if (entry.kind !== "key") throw new Error(`Expected a key, found a ${entry.kind}`);
  return entry.thing;
}

function toRecord(row: KeyRow): KeyRecord {
  const { name, scopes, modelIds, classNames, notBeforeAtMs, expiresAtMs } = readKey(row);
  const endsAtMs = Math.min(expiresAtMs ?? Infinity, row.ends_at_ms ?? Infinity);
  return {
    name,
    source: row.source,
    scopes: scopes ?? DEFAULT_KEY_SCOPES,
    ...(modelIds !== undefined && { modelIds }),
    ...(classNames !== undefined && { classNames }),
    ...(notBeforeAtMs !== undefined && { notBeforeAtMs }),
    ...(endsAtMs !== Infinity && { expiresAtMs: endsAtMs }),
    ...(row.created_at_ms !== null && { createdAtMs: row.created_at_ms }),
    ...(row.created_by !== null && { createdBy: row.created_by }),
    ...(row.used_at_ms !== null && { lastUsedAtMs: row.used_at_ms }),
  };
}
