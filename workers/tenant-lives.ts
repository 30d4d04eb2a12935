/**
 * Who a tenant's name stands for. A name that was removed and is given again is somebody else, until a
 * rollback says that it is not: so each stretch of a name is a life of its own, by the number of the version
 * that began it. A row tells of a name which life it leads as of a version, null: none.
 */
const SCHEMA = `CREATE TABLE IF NOT EXISTS tenant_lives (
  tenant_id TEXT NOT NULL,
  since_version INTEGER NOT NULL,
  life INTEGER,
  PRIMARY KEY (tenant_id, since_version)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS tenant_lives_since ON tenant_lives (since_version)`;

/** Of tenants that were there before lives were told apart. */
const FIRST_LIFE = 0;

const lifeOf = (name: string, condition = "TRUE"): string => `(
  SELECT life FROM tenant_lives AS told WHERE told.tenant_id = ${name} AND ${condition}
  ORDER BY since_version DESC LIMIT 1)`;

/** Which life each tenant leads, and led in the versions that are kept. */
export class TenantLives {
  readonly #sql: SqlStorage;

  /** To be made once the tables of the configuration are there. */
  constructor(sql: SqlStorage) {
    this.#sql = sql;
    sql.exec(SCHEMA);
    sql.exec(
      `INSERT INTO tenant_lives SELECT id, 0, ? FROM live_rows
        WHERE kind = 'tenant' AND NOT EXISTS (SELECT 1 FROM tenant_lives)`,
      FIRST_LIFE,
    );
  }

  /** Whether a tenant leads another life now than it did in a former version. */
  differFrom(version: number): boolean {
    const query = `SELECT 1 FROM live_rows AS live WHERE kind = 'tenant'
      AND id IN (SELECT tenant_id FROM tenant_lives WHERE since_version > ?1)
      AND ${lifeOf("live.id")} IS NOT IFNULL(${lifeOf("live.id", "since_version <= ?1")}, ?2) LIMIT 1`;
    return this.#sql.exec(query, version, FIRST_LIFE).toArray().length > 0;
  }

  /**
   * Writes down whose life began or ended by the version that went live just now and whose change is still
   * staged. `from`: the version that it goes back to, whose lives go on. Returns those whose name had stood for
   * somebody before.
   */
  follow(stage: number, version: number, from: number | undefined): string[] {
    this.#sql.exec(
      `INSERT INTO tenant_lives SELECT id, ?2, next FROM (
        SELECT id, life, CASE
          WHEN NOT EXISTS (SELECT 1 FROM live_rows WHERE kind = 'tenant' AND id = touched.id) THEN NULL
          WHEN ?3 IS NOT NULL THEN IFNULL(${lifeOf("touched.id", "since_version <= ?3")}, ?4)
          -- A row that was lost ended no life.
          ELSE IFNULL(life, ?2) END AS next
        FROM (
          SELECT id, ${lifeOf("id")} AS life FROM (
            SELECT id FROM staged_rows WHERE stage = ?1 AND kind = 'tenant'
            UNION SELECT tenant_id FROM tenant_lives WHERE since_version > ?3)
        ) AS touched
      ) WHERE next IS NOT life`,
      stage,
      version,
      from ?? null,
      FIRST_LIFE,
    );
    return this.#sql
      .exec<{ id: string }>(
        `SELECT tenant_id AS id FROM tenant_lives AS new WHERE since_version = ?1 AND EXISTS (
          SELECT 1 FROM tenant_lives WHERE tenant_id = new.tenant_id AND since_version < ?1)`,
        version,
      )
      .toArray()
      .map(({ id }) => id);
  }

  /** Forgets what only versions that are not kept any more tell. */
  prune(): void {
    this.#sql.exec(
      `DELETE FROM tenant_lives WHERE since_version <= (SELECT MIN(version) FROM versions)
        AND (life IS NULL OR EXISTS (SELECT 1 FROM tenant_lives AS later
          WHERE later.tenant_id = tenant_lives.tenant_id
          AND later.since_version > tenant_lives.since_version
          AND later.since_version <= (SELECT MIN(version) FROM versions)))`,
    );
  }
}
