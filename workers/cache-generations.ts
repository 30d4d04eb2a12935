const SCHEMA = `CREATE TABLE IF NOT EXISTS cache_generations (
  tenant_id TEXT PRIMARY KEY,
  generation INTEGER NOT NULL
)`;

type StoredGeneration = { generation: number };

/**
 * How often each tenant's caches were purged. A generation is never forgotten, not even with its tenant:
 * who comes back under an old name must not find what was cached before.
 */
export class CacheGenerations {
  readonly #sql: SqlStorage;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
    sql.exec(SCHEMA);
  }

  /** 0 unless it was ever raised. */
  of(tenantId: string): number {
    const [row] = this.#sql
      .exec<StoredGeneration>(
        "SELECT generation FROM cache_generations WHERE tenant_id = ?",
        tenantId,
      )
      .toArray();
    return row?.generation ?? 0;
  }

  /** Begins the next generation, and returns it. */
  raise(tenantId: string): number {
    const generation = this.of(tenantId) + 1;
    this.#sql.exec("INSERT OR REPLACE INTO cache_generations VALUES (?, ?)", tenantId, generation);
    return generation;
  }
}
