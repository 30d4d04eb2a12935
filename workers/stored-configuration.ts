import type { PoolId, TenantId } from "../src/protocol/ids.ts";
import type { ConfigurationRow, RowKind, Thing } from "../src/tenants/configuration-rows.ts";
import { readRow } from "../src/tenants/configuration-rows.ts";
import type { LiveModel, LiveSettings, LiveTenant } from "../src/tenants/live-configuration.ts";
import type { RowCounts } from "./stored-versions.ts";
import { digestOf, StoredVersions, tornError } from "./stored-versions.ts";

/**
 * A thing stands once, in the version that brought it; a version without changes to it adds nothing. What
 * a version replaces or leaves out goes to `past_rows` with the version that ended it.
 */
const SCHEMA = `
CREATE TABLE IF NOT EXISTS live_rows (
  kind TEXT NOT NULL,
  id TEXT NOT NULL,
  tenant_id TEXT,
  name TEXT,
  value TEXT NOT NULL,
  digest TEXT NOT NULL,
  since_version INTEGER NOT NULL,
  PRIMARY KEY (kind, id)
);
CREATE INDEX IF NOT EXISTS live_rows_names ON live_rows (kind, tenant_id, name);
CREATE INDEX IF NOT EXISTS live_rows_since ON live_rows (since_version);
CREATE TABLE IF NOT EXISTS past_rows (
  kind TEXT NOT NULL,
  id TEXT NOT NULL,
  tenant_id TEXT,
  name TEXT,
  value TEXT NOT NULL,
  digest TEXT NOT NULL,
  since_version INTEGER NOT NULL,
  until_version INTEGER NOT NULL,
  PRIMARY KEY (kind, id, since_version)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS past_rows_since ON past_rows (since_version);
CREATE INDEX IF NOT EXISTS past_rows_until ON past_rows (until_version)`;

/** What of the live configuration is small enough to be kept in memory. */
export interface Frame {
  readonly version: number;
  readonly counts: RowCounts;
  readonly settings: LiveSettings;
  readonly poolIds: readonly PoolId[];
  readonly models: ReadonlyMap<string, LiveModel>;
}

/** A row of the live configuration or of a former one. */
export type SqlRow = {
  kind: RowKind;
  id: string;
  tenant_id: TenantId | null;
  name: string | null;
  value: string;
  digest: string;
};

/** The live configuration as it is stored. Throws where it is torn. */
export class StoredConfiguration {
  readonly versions: StoredVersions;
  readonly #sql: SqlStorage;
  #frame: Frame | undefined;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
    this.versions = new StoredVersions(sql);
    sql.exec(SCHEMA);
  }

  /** Tells of the live configuration what is not looked up one by one; undefined before the first. */
  frame(): Frame | undefined {
    this.#frame ??= this.#readFrame();
    return this.#frame;
  }

  /** Has everything read again: another version is live. */
  forget(): void {
    this.#frame = undefined;
  }

  /** Whether what is live can be served. */
  isSound(): boolean {
    try {
      return this.#readFrame() !== undefined;
    } catch {
      return false;
    }
  }

  find(
    kind: RowKind,
    id: string,
  ): { readonly entry: Thing; readonly sinceVersion: number } | undefined {
    const [found] = this.#sql
      .exec<SqlRow & { since_version: number }>(
        "SELECT * FROM live_rows WHERE kind = ? AND id = ?",
        kind,
        id,
      )
      .toArray();
    return found && { entry: readSqlRow(found), sinceVersion: found.since_version };
  }

  has(kind: RowKind, id: string): boolean {
    return (
      this.#sql.exec("SELECT 1 FROM live_rows WHERE kind = ? AND id = ?", kind, id).toArray()
        .length > 0
    );
  }

  /** Lists tenants by name, those behind `after`. */
  tenants(after: string, countMax: number): LiveTenant[] {
    this.frame();
    return this.#sql
      .exec<SqlRow>(
        "SELECT * FROM live_rows WHERE kind = 'tenant' AND id > ? ORDER BY id LIMIT ?",
        after,
        countMax,
      )
      .toArray()
      .flatMap((row) => {
        const entry = readSqlRow(row);
        return entry.kind === "tenant" ? [entry.thing] : [];
      });
  }

  /** How many of each kind are live, as counted now. */
  countRows(): RowCounts {
    const rows = this.#sql
      .exec<{ kind: RowKind; count: number }>(
        "SELECT kind, COUNT(*) AS count FROM live_rows INDEXED BY live_rows_names GROUP BY kind",
      )
      .toArray();
    return Object.fromEntries(rows.map(({ kind, count }) => [kind, count]));
  }

  #readFrame(): Frame | undefined {
    const live = this.versions.find(this.versions.live());
    if (live === undefined) return undefined;
    const counts = this.countRows();
    for (const kind of new Set([...Object.keys(counts), ...Object.keys(live.counts)])) {
      if (Reflect.get(counts, kind) !== Reflect.get(live.counts, kind)) {
        throw tornError(`it has not as many of kind ${kind} as version ${live.version}`);
      }
    }
    const models = new Map<string, LiveModel>();
    const poolIds: PoolId[] = [];
    let settings: LiveSettings = {};
    const rows = this.#sql.exec<SqlRow>(
      "SELECT * FROM live_rows WHERE kind IN ('model', 'pool', 'settings')",
    );
    for (const row of rows) {
      const { kind, thing } = readSqlRow(row);
      if (kind === "model") models.set(thing.modelId, thing);
      else if (kind === "pool") poolIds.push(thing.poolId);
      else if (kind === "settings") settings = thing;
    }
    return { version: live.version, counts, settings, poolIds, models };
  }
}

/** Reads a row, or throws because it is not what was written. */
export function readSqlRow(row: SqlRow): Thing {
  const plain = fromSql(row);
  if (row.digest !== digestOfRow(plain))
    throw tornError(`the ${row.kind} is not as it was written`);
  return readRow(plain);
}

function fromSql({ kind, id, tenant_id, name, value }: SqlRow): ConfigurationRow {
  return { kind, id, tenantId: tenant_id, name, value };
}

/** Tells a row from any other, so that one that was written in part or changed later is found out. */
export function digestOfRow({ kind, id, tenantId, name, value }: ConfigurationRow): string {
  return digestOf(kind, id, tenantId, name, value);
}
