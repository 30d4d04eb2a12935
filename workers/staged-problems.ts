import type { Thing } from "../src/tenants/configuration-rows.ts";
import { assemble } from "../src/tenants/configuration-rows.ts";
import { CONFIGURATION_LIMITS } from "../src/tenants/live-configuration.ts";
import { formatPath } from "../src/tenants/references.ts";
import type { SqlRow } from "./stored-configuration.ts";
import { readSqlRow } from "./stored-configuration.ts";

/** Problems told at once; whoever has more mends these first. */
const PROBLEMS_MAX = 20;

/**
 * Finds what would not fit together if a stage went live. Only what is staged is looked at where that is
 * enough: there may be many times as many keys as a change has.
 */
export function findStagedProblems(sql: SqlStorage, stage: number): string[] {
  const outcome = assemble(outcomeOf(sql, stage));
  const references = (outcome.error?.issues ?? []).map(
    ({ path, message }) =>
      `expected ${formatPath(path.filter((step) => typeof step !== "symbol"))} to be ${message}`,
  );
  const problems = [
    ...references,
    ...findKeyProblems(sql, stage),
    ...findCountProblems(sql, stage),
  ];
  return problems.slice(0, PROBLEMS_MAX);
}

/** Everything as it would be live, but for the keys. */
function* outcomeOf(sql: SqlStorage, stage: number): Generator<Thing> {
  const rows = sql.exec<SqlRow>(
    `SELECT kind, id, tenant_id, name, value, digest FROM live_rows AS live
      WHERE kind <> 'key' AND NOT EXISTS (SELECT 1 FROM staged_rows AS staged
        WHERE stage = ?1 AND staged.kind = live.kind AND staged.id = live.id)
      UNION ALL
      SELECT kind, id, tenant_id, name, value, digest FROM staged_rows
      WHERE stage = ?1 AND kind <> 'key' AND value IS NOT NULL
      ORDER BY kind, id`,
    stage,
  );
  for (const row of rows) yield readSqlRow(row);
}

function findKeyProblems(sql: SqlStorage, stage: number): string[] {
  const homeless = sql.exec<{ tenant_id: string; name: string }>(
    `SELECT tenant_id, name FROM staged_rows AS key
      WHERE stage = ?1 AND kind = 'key' AND value IS NOT NULL AND NOT EXISTS
        (SELECT 1 FROM staged_rows WHERE stage = ?1 AND kind = 'tenant' AND id = key.tenant_id
          AND value IS NOT NULL)
        AND (NOT EXISTS (SELECT 1 FROM live_rows WHERE kind = 'tenant' AND id = key.tenant_id)
          OR EXISTS (SELECT 1 FROM staged_rows WHERE stage = ?1 AND kind = 'tenant'
            AND id = key.tenant_id))
      LIMIT ?2`,
    stage,
    PROBLEMS_MAX,
  );
  const twins = sql.exec<{ tenant_id: string; name: string }>(
    `SELECT tenant_id, name FROM staged_rows AS key
      WHERE stage = ?1 AND kind = 'key' AND value IS NOT NULL AND (
        EXISTS (SELECT 1 FROM staged_rows AS other INDEXED BY staged_rows_names
          WHERE stage = ?1 AND kind = 'key'
          AND other.tenant_id = key.tenant_id AND other.name = key.name AND other.id <> key.id
          AND other.value IS NOT NULL)
        OR EXISTS (SELECT 1 FROM live_rows AS other WHERE kind = 'key'
          AND other.tenant_id = key.tenant_id AND other.name = key.name AND other.id <> key.id
          AND NOT EXISTS (SELECT 1 FROM staged_rows AS gone
            WHERE stage = ?1 AND kind = 'key' AND gone.id = other.id)))
      LIMIT ?2`,
    stage,
    PROBLEMS_MAX,
  );
  const issued = sql.exec<{ tenant_id: string; name: string }>(
    `SELECT tenant_id, name FROM staged_rows AS key
      WHERE stage = ?1 AND kind = 'key' AND value IS NOT NULL AND EXISTS
        (SELECT 1 FROM issued_keys AS other WHERE other.tenant_id = key.tenant_id
          AND other.name = key.name AND other.id <> key.id)
      LIMIT ?2`,
    stage,
    PROBLEMS_MAX,
  );
  return [
    ...[...homeless].map(
      ({ tenant_id, name }) => `expected the tenant '${tenant_id}' of the key '${name}' to exist`,
    ),
    ...[...twins].map(
      ({ tenant_id, name }) => `expected one key '${name}' of the tenant '${tenant_id}', found two`,
    ),
    ...[...issued].map(
      ({ tenant_id, name }) =>
        `expected another name for the key '${name}' of the tenant '${tenant_id}': the admin API has issued one of that name`,
    ),
  ];
}

function findCountProblems(sql: SqlStorage, stage: number): string[] {
  const { tenantsMax, keysMax } = CONFIGURATION_LIMITS;
  const maxima = { tenant: tenantsMax, key: keysMax };
  return (["tenant", "key"] as const).flatMap((kind) => {
    const { count } = sql
      .exec<{ count: number }>(
        `SELECT (SELECT COUNT(*) FROM live_rows WHERE kind = ?1) + (
          SELECT IFNULL(SUM((value IS NOT NULL) - EXISTS
            (SELECT 1 FROM live_rows AS live WHERE live.kind = staged.kind AND live.id = staged.id)), 0)
          FROM staged_rows AS staged WHERE stage = ?2 AND kind = ?1) AS count`,
        kind,
        stage,
      )
      .one();
    const max = maxima[kind];
    return count <= max ? [] : [`expected at most ${max} ${kind}s, found ${count}`];
  });
}
