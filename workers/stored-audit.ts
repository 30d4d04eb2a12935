/** Deeds that are kept, the newest. */
const DEEDS_MAX = 10_000;

const SCHEMA = `CREATE TABLE IF NOT EXISTS audit (
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  at_ms INTEGER NOT NULL,
  actor TEXT NOT NULL,
  action TEXT NOT NULL,
  subject TEXT NOT NULL,
  details TEXT NOT NULL
)`;

/** Something that somebody did by the admin API. */
export interface Deed {
  /** A key as `tenant/name`, or `bootstrap`. */
  readonly actor: string;
  /** Such as `key.rotate`. */
  readonly action: string;
  /** What it was done to, by name. */
  readonly subject: string;
  /** What else there is to know of it, in few words; never a key and never a hash. */
  readonly details: string;
}

export interface AuditEntry extends Deed {
  readonly number: number;
  readonly atMs: number;
}

type SqlDeed = {
  number: number;
  at_ms: number;
  actor: string;
  action: string;
  subject: string;
  details: string;
};

/** Who changed what: written with the change itself, so that neither is there without the other. */
export class StoredAudit {
  readonly #sql: SqlStorage;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
    sql.exec(SCHEMA);
  }

  add({ actor, action, subject, details }: Deed, nowMs: number): void {
    this.#sql.exec(
      "INSERT INTO audit (at_ms, actor, action, subject, details) VALUES (?, ?, ?, ?, ?)",
      nowMs,
      actor,
      action,
      subject,
      details,
    );
    this.#sql.exec(
      "DELETE FROM audit WHERE number <= (SELECT MAX(number) FROM audit) - ?",
      DEEDS_MAX,
    );
  }

  /** Lists deeds, newest first, those before one. */
  list(before: number, countMax: number): AuditEntry[] {
    return this.#sql
      .exec<SqlDeed>(
        "SELECT * FROM audit WHERE number < ? ORDER BY number DESC LIMIT ?",
        before,
        countMax,
      )
      .toArray()
      .map(({ at_ms: atMs, ...deed }) => ({ ...deed, atMs }));
  }
}
