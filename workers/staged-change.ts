import type { ChangeCounts } from "../src/tenants/configuration-changes.ts";
import type { ConfigurationChanges } from "../src/tenants/configuration-changes.ts";
import type { ConfigurationRow, RowKind } from "../src/tenants/configuration-rows.ts";
import { readRow } from "../src/tenants/configuration-rows.ts";
import { findStagedProblems } from "./staged-problems.ts";
import type { SqlChange } from "./stored-changes.ts";
import { listChanges } from "./stored-changes.ts";
import type { SqlRow, StoredConfiguration } from "./stored-configuration.ts";
import type { Authorship, VersionRecord } from "./stored-versions.ts";
import { digestOfRow, readSqlRow } from "./stored-configuration.ts";

/** A row without a value takes away what is live under its name. */
const SCHEMA = `CREATE TABLE IF NOT EXISTS staged_rows (
  stage INTEGER NOT NULL,
  kind TEXT NOT NULL,
  id TEXT NOT NULL,
  tenant_id TEXT,
  name TEXT,
  value TEXT,
  digest TEXT,
  PRIMARY KEY (stage, kind, id)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS staged_rows_names ON staged_rows (stage, kind, tenant_id, name)`;

export type Applied =
  | { readonly kind: "applied"; readonly version: number; readonly changes: ChangeCounts }
  /** What was to go live is live already. */
  | { readonly kind: "unchanged"; readonly version: number }
  /** Another version is live than the expected one. */
  | { readonly kind: "conflict"; readonly version: number }
  /** Each of them completes "The configuration cannot go live: …". */
  | { readonly kind: "invalid"; readonly problems: readonly string[] };

/** What a change would do to the live version. */
export interface ChangePreview extends ConfigurationChanges {
  /** Which one that is; 0: none yet. */
  readonly version: number;
  readonly problems: readonly string[];
}

/** A change that is live and still staged, so that what depends on it can follow. */
export interface AppliedStage {
  readonly record: VersionRecord;
  readonly stage: number;
  /** The version that it goes back to. */
  readonly from: number | undefined;
}

/** What a change is to replace, and what is told of it. */
export interface CommitWish extends Authorship {
  /** Refuses to replace any version but this one; absent: whichever is live. */
  readonly expectedVersion?: number;
}

/**
 * A change of the live configuration that is being written down: rows beside the live ones, which go live
 * together in one transaction or not at all. It is used once: `preview` and `commit` leave nothing staged,
 * since what is left out as equal now may not be equal later.
 */
export class StagedChange {
  readonly #storage: DurableObjectStorage;
  readonly #stored: StoredConfiguration;
  readonly #stage: number;
  /** Whether what is not staged is to go. */
  readonly #isWhole: boolean;
  readonly #isOtherThan: (version: number) => boolean;
  readonly #onApplied: (applied: AppliedStage) => void;
  /** The version that is gone back to. */
  #from: number | undefined;

  constructor(
    storage: DurableObjectStorage,
    stored: StoredConfiguration,
    options: {
      readonly stage: number;
      readonly isWhole: boolean;
      /** Whether going back to a version changes more than rows. */
      readonly isOtherThan: (version: number) => boolean;
      /** Called within the transaction: what it writes is there with the version or not at all. */
      readonly onApplied: (applied: AppliedStage) => void;
    },
  ) {
    this.#storage = storage;
    this.#stored = stored;
    this.#stage = options.stage;
    this.#isWhole = options.isWhole;
    this.#isOtherThan = options.isOtherThan;
    this.#onApplied = options.onApplied;
  }

  /** Takes a row in, or throws because it is not what its kind should be, or is there already. */
  add(rows: readonly ConfigurationRow[]): void {
    const values = rows.map((row) => {
      readRow(row);
      return [row.kind, row.id, row.tenantId, row.name, row.value, digestOfRow(row)];
    });
    this.#storage.transactionSync(() => {
      this.#sql.exec(
        `INSERT INTO staged_rows SELECT ?, value->>0, value->>1, value->>2, value->>3, value->>4, value->>5
        FROM json_each(?)`,
        this.#stage,
        JSON.stringify(values),
      );
    });
  }

  /** Those of some rows that are staged already. */
  repeated(rows: readonly ConfigurationRow[]): readonly ConfigurationRow[] {
    const seen = new Set<string>();
    return rows.filter(({ kind, id }) => {
      const name = JSON.stringify([kind, id]);
      if (seen.has(name)) return true;
      seen.add(name);
      const query = "SELECT 1 FROM staged_rows WHERE stage = ? AND kind = ? AND id = ?";
      return this.#sql.exec(query, this.#stage, kind, id).toArray().length > 0;
    });
  }

  /** Takes a thing out of the live configuration, a tenant with its keys. */
  remove(kind: RowKind, id: string): void {
    const insert = `INSERT INTO staged_rows (stage, kind, id, tenant_id, name)
      SELECT ?, kind, id, tenant_id, name FROM live_rows WHERE kind =`;
    this.#sql.exec(`${insert} ? AND id = ?`, this.#stage, kind, id);
    if (kind === "tenant") this.#sql.exec(`${insert} 'key' AND tenant_id = ?`, this.#stage, id);
  }

  /** Takes all of a former version in; throws when it is not as it was written. */
  addVersion(version: number): void {
    const rows = this.#sql.exec<SqlRow>(
      `SELECT * FROM (
        SELECT kind, id, tenant_id, name, value, digest FROM live_rows WHERE since_version <= ?1
        UNION ALL
        SELECT kind, id, tenant_id, name, value, digest FROM past_rows
          WHERE since_version <= ?1 AND until_version > ?1)`,
      version,
    );
    for (const row of rows) readSqlRow(row);
    this.#from = version;
    this.#sql.exec(
      `INSERT INTO staged_rows
        SELECT ?2, kind, id, tenant_id, name, value, digest FROM live_rows WHERE since_version <= ?1
        UNION ALL
        SELECT ?2, kind, id, tenant_id, name, value, digest FROM past_rows
          WHERE since_version <= ?1 AND until_version > ?1`,
      version,
      this.#stage,
    );
  }

  /** Tells what would change of which version, and what keeps it from doing so. */
  preview(countMax: number): ChangePreview {
    return this.#storage.transactionSync(() => {
      this.#reduce();
      const preview = {
        version: this.#stored.versions.live(),
        ...this.#changes(countMax),
        problems: findStagedProblems(this.#sql, this.#stage),
      };
      this.discard();
      return preview;
    });
  }

  /** Makes all of the change live, or nothing of it. */
  commit(wish: CommitWish, nowMs: number): Applied {
    return this.#storage.transactionSync((): Applied => {
      const applied = this.#commit(wish, nowMs);
      this.discard();
      return applied;
    });
  }

  discard(): void {
    this.#sql.exec("DELETE FROM staged_rows WHERE stage = ?", this.#stage);
  }

  #commit({ expectedVersion, ...authorship }: CommitWish, nowMs: number): Applied {
    const liveVersion = this.#stored.versions.live();
    if (expectedVersion !== undefined && expectedVersion !== liveVersion) {
      return { kind: "conflict", version: liveVersion };
    }
    this.#reduce();
    const { counts: changes } = this.#changes(0);
    const from = this.#from;
    const isChange =
      changes.added + changes.changed + changes.removed > 0 ||
      (from !== undefined && this.#isOtherThan(from));
    if (!isChange && this.#stored.isSound()) return { kind: "unchanged", version: liveVersion };
    const problems = findStagedProblems(this.#sql, this.#stage);
    if (problems.length > 0) return { kind: "invalid", problems };
    const version = liveVersion + 1;
    const pastBytes = this.#moveLive(version);
    const counts = this.#stored.countRows();
    const record = { version, atMs: nowMs, counts, changes, ...authorship };
    this.#stored.versions.add(record, pastBytes);
    this.#onApplied({ record, stage: this.#stage, from });
    this.#stored.forget();
    return { kind: "applied", version, changes };
  }

  /** Leaves staged only what differs from what is live. */
  #reduce(): void {
    if (this.#isWhole) {
      this.#sql.exec(
        `INSERT INTO staged_rows (stage, kind, id, tenant_id, name)
          SELECT ?1, kind, id, tenant_id, name FROM live_rows AS live WHERE NOT EXISTS
            (SELECT 1 FROM staged_rows AS staged
              WHERE stage = ?1 AND staged.kind = live.kind AND staged.id = live.id)`,
        this.#stage,
      );
    }
    // By the text and the digest: a live row that is torn is never equal.
    this.#sql.exec(
      `DELETE FROM staged_rows WHERE stage = ? AND EXISTS
        (SELECT 1 FROM live_rows AS live WHERE live.kind = staged_rows.kind AND live.id = staged_rows.id
          AND +live.tenant_id IS staged_rows.tenant_id AND +live.name IS staged_rows.name
          AND +live.value = staged_rows.value AND +live.digest = staged_rows.digest)`,
      this.#stage,
    );
  }

  #changes(countMax: number): ConfigurationChanges {
    return listChanges(this.#listStaged(), countMax);
  }

  /** What goes is told first, without the store having to sort everything by it. */
  *#listStaged(): Generator<SqlChange> {
    const goes = "staged.value IS NULL AND staged.kind =";
    const conditions = [
      `${goes} 'tenant'`,
      `${goes} 'key'`,
      "(staged.value IS NOT NULL OR staged.kind NOT IN ('tenant', 'key'))",
    ];
    for (const condition of conditions) {
      yield* this.#sql.exec<SqlChange>(
        `SELECT staged.kind, staged.id,
          IFNULL(staged.tenant_id, live.tenant_id) AS tenant_id, IFNULL(staged.name, live.name) AS name,
          live.value AS before, staged.value AS after,
          CASE WHEN staged.kind = 'tenant' AND staged.value IS NULL
            THEN (SELECT COUNT(*) FROM issued_keys WHERE tenant_id = staged.id) ELSE 0 END AS issued_keys
          FROM staged_rows AS staged LEFT JOIN live_rows AS live
            ON live.kind = staged.kind AND live.id = staged.id
          WHERE stage = ? AND ${condition}`,
        this.#stage,
      );
    }
  }

  /** Puts what is staged in the place of what is live, and tells how much of that is past now. */
  #moveLive(version: number): number {
    const touched = `EXISTS (SELECT 1 FROM staged_rows AS staged
      WHERE stage = ? AND staged.kind = live_rows.kind AND staged.id = live_rows.id)`;
    const { bytes } = this.#sql
      .exec<{ bytes: number }>(
        `SELECT IFNULL(SUM(LENGTH(value)), 0) AS bytes FROM live_rows WHERE ${touched}`,
        this.#stage,
      )
      .one();
    this.#sql.exec(
      `INSERT INTO past_rows SELECT kind, id, tenant_id, name, value, digest, since_version, ?
        FROM live_rows WHERE ${touched}`,
      version,
      this.#stage,
    );
    this.#sql.exec(`DELETE FROM live_rows WHERE ${touched}`, this.#stage);
    this.#sql.exec(
      `INSERT INTO live_rows SELECT kind, id, tenant_id, name, value, digest, ?
        FROM staged_rows WHERE stage = ? AND value IS NOT NULL`,
      version,
      this.#stage,
    );
    return bytes;
  }

  get #sql(): SqlStorage {
    return this.#storage.sql;
  }
}

/** Forgets what was staged by a former life of the object: whoever staged it is gone as well. */
export function clearStages(sql: SqlStorage): void {
  sql.exec(SCHEMA);
  sql.exec("DELETE FROM staged_rows");
}
