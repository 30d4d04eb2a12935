import { createHash } from "node:crypto";
import * as z from "zod";

/** Raised when what is stored changes its shape. */
const FORMAT = 2;

/** Versions that are kept beside the live one. */
export const VERSIONS_MAX = 100;
/** Of what only former versions have. */
const PAST_BYTES_MAX = 256_000_000;

const SCHEMA = `CREATE TABLE IF NOT EXISTS versions (
  version INTEGER PRIMARY KEY,
  format INTEGER NOT NULL,
  at_ms INTEGER NOT NULL,
  actor TEXT NOT NULL,
  action TEXT NOT NULL,
  reason TEXT NOT NULL,
  counts TEXT NOT NULL,
  changes TEXT NOT NULL,
  past_bytes INTEGER NOT NULL,
  digest TEXT NOT NULL
)`;

const Count = z.int().min(0);

/** How many there are of each kind in one version. */
const RowCounts = z.strictObject({
  settings: Count.exactOptional(),
  pool: Count.exactOptional(),
  model: Count.exactOptional(),
  tenant: Count.exactOptional(),
  key: Count.exactOptional(),
});
export type RowCounts = z.infer<typeof RowCounts>;

const ChangeCounts = z.strictObject({ added: Count, changed: Count, removed: Count });

/** Who changed the configuration, what for and by what means. */
export interface Authorship {
  /** A key as `tenant/name`, or `bootstrap`. */
  readonly actor: string;
  readonly reason: string;
  /** Such as `apply`, or `rollback to 4`. */
  readonly action: string;
}

/** One version in the history. */
export interface VersionRecord extends Authorship {
  readonly version: number;
  readonly atMs: number;
  readonly counts: RowCounts;
  readonly changes: z.infer<typeof ChangeCounts>;
}

type SqlVersion = {
  version: number;
  format: number;
  at_ms: number;
  actor: string;
  action: string;
  reason: string;
  counts: string;
  changes: string;
  past_bytes: number;
  digest: string;
};

/** The history of the configuration: who made which version when. Throws where it is torn. */
export class StoredVersions {
  readonly #sql: SqlStorage;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
    sql.exec(SCHEMA);
  }

  /** The number of the live version, however torn it is; 0 before the first. */
  live(): number {
    const query = "SELECT IFNULL(MAX(version), 0) AS version FROM versions";
    return this.#sql.exec<{ version: number }>(query).one().version;
  }

  find(version: number): VersionRecord | undefined {
    const query = "SELECT * FROM versions WHERE version = ?";
    const [row] = this.#sql.exec<SqlVersion>(query, version).toArray();
    return row && readVersion(row);
  }

  /** Lists versions, newest first, those before one. */
  list(before: number, countMax: number): VersionRecord[] {
    const query = "SELECT * FROM versions WHERE version < ? ORDER BY version DESC LIMIT ?";
    return this.#sql.exec<SqlVersion>(query, before, countMax).toArray().map(readVersion);
  }

  /** Adds the version that is live from now on, which left `pastBytes` of the one before to the past. */
  add(record: VersionRecord, pastBytes: number): void {
    const counts = JSON.stringify(record.counts);
    const changes = JSON.stringify(record.changes);
    const { version, atMs, actor, action, reason } = record;
    const digest = digestOf(version, FORMAT, atMs, actor, action, reason, counts, changes);
    this.#sql.exec(
      "INSERT INTO versions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
      version,
      FORMAT,
      atMs,
      actor,
      action,
      reason,
      counts,
      changes,
      pastBytes,
      digest,
    );
    this.#prune(version);
  }

  /** Keeps as many versions as there may be, fewer where what they alone have takes too much room. */
  #prune(liveVersion: number): void {
    let oldest = liveVersion - VERSIONS_MAX;
    let bytes = 0;
    const rows = this.#sql.exec<{ version: number; past_bytes: number }>(
      "SELECT version, past_bytes FROM versions WHERE version > ? ORDER BY version DESC",
      oldest,
    );
    for (const { version, past_bytes: pastBytes } of rows) {
      bytes += pastBytes;
      // What this version ended belongs to the one before it, which cannot be kept then.
      if (bytes > PAST_BYTES_MAX) oldest = Math.max(oldest, version);
    }
    this.#sql.exec("DELETE FROM past_rows WHERE until_version <= ?", oldest);
    this.#sql.exec("DELETE FROM versions WHERE version < ?", oldest);
  }
}

/** Tells what was stored from anything else, so that what was written in part or changed is found out. */
export function digestOf(...parts: readonly (string | number | null)[]): string {
  return createHash("sha256").update(JSON.stringify(parts)).digest("base64url").slice(0, 22);
}

export function tornError(what: string): Error {
  return new Error(`The stored configuration is torn or of another program: ${what}`);
}

function readVersion(row: SqlVersion): VersionRecord {
  const { version, format, at_ms: atMs, actor, action, reason, counts, changes } = row;
  const digest = digestOf(version, format, atMs, actor, action, reason, counts, changes);
  if (format !== FORMAT || digest !== row.digest) throw tornError(`version ${version}`);
  return {
    version,
    atMs,
    actor,
    action,
    reason,
    counts: RowCounts.parse(JSON.parse(counts)),
    changes: ChangeCounts.parse(JSON.parse(changes)),
  };
}
