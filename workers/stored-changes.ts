import type { ConfigurationChanges, ThingChange } from "../src/tenants/configuration-changes.ts";
import { changedFields } from "../src/tenants/configuration-changes.ts";
import type { RowKind } from "../src/tenants/configuration-rows.ts";

/** One thing as it was and as it is to be; null: it was not, or is to be no more. */
export type SqlChange = {
  kind: RowKind;
  id: string;
  tenant_id: string | null;
  name: string | null;
  before: string | null;
  after: string | null;
  /** Of a tenant that goes: how many keys go with it that were issued. */
  issued_keys?: number;
};

/** Counts what changes, and tells the first `countMax` of it in full. */
export function listChanges(rows: Iterable<SqlChange>, countMax: number): ConfigurationChanges {
  const counts = { added: 0, changed: 0, removed: 0 };
  const changes: ThingChange[] = [];
  for (const row of rows) {
    const change = changeOf(row);
    counts[change] += 1;
    if (changes.length < countMax) changes.push(describeChange(row, change));
  }
  return { counts, changes };
}

/**
 * Tells what differs between two versions that are kept, in whichever order. Only what one of the versions
 * between them has touched is looked at.
 */
export function compareVersions(
  sql: SqlStorage,
  { from, to }: { readonly from: number; readonly to: number },
  countMax: number,
): ConfigurationChanges {
  const [earlier, later] = from <= to ? ["before", "after"] : ["after", "before"];
  const after = from <= to ? "new" : "old";
  const rows = sql.exec<SqlChange>(
    `WITH old AS (
      SELECT kind, id, tenant_id, name, value FROM past_rows
        WHERE until_version > ?1 AND until_version <= ?2 AND since_version <= ?1),
    new AS (
      SELECT kind, id, tenant_id, name, value FROM live_rows
        WHERE since_version > ?1 AND since_version <= ?2
      UNION ALL
      SELECT kind, id, tenant_id, name, value FROM past_rows
        WHERE since_version > ?1 AND since_version <= ?2 AND until_version > ?2)
    SELECT IFNULL(new.kind, old.kind) AS kind, IFNULL(new.id, old.id) AS id,
      IFNULL(new.tenant_id, old.tenant_id) AS tenant_id, IFNULL(new.name, old.name) AS name,
      old.value AS "${earlier}", new.value AS "${later}",
      CASE WHEN IFNULL(new.kind, old.kind) = 'tenant' AND ${after}.value IS NULL
        AND ?3 = (SELECT MAX(version) FROM versions)
        THEN (SELECT COUNT(*) FROM issued_keys WHERE tenant_id = IFNULL(new.id, old.id)) ELSE 0 END
        AS issued_keys
    FROM old FULL OUTER JOIN new ON new.kind = old.kind AND new.id = old.id
    WHERE old.value IS NOT new.value OR old.name IS NOT new.name OR old.tenant_id IS NOT new.tenant_id
    ORDER BY ${after}.value IS NULL AND IFNULL(new.kind, old.kind) = 'tenant' DESC,
      ${after}.value IS NULL AND IFNULL(new.kind, old.kind) = 'key' DESC, 1, 2`,
    Math.min(from, to),
    Math.max(from, to),
    from,
  );
  return listChanges(rows, countMax);
}

function changeOf({ before, after }: SqlChange): ThingChange["change"] {
  if (before === null) return "added";
  return after === null ? "removed" : "changed";
}

function describeChange(row: SqlChange, change: ThingChange["change"]): ThingChange {
  const { kind, before, after, issued_keys: issuedKeys = 0 } = row;
  // Of a key the id is its hash, which helps nobody.
  const name = kind === "key" ? `${row.tenant_id}/${row.name}` : row.id;
  if (after === null) return { kind, name, change, ...(issuedKeys > 0 && { issuedKeys }) };
  return { kind, name, change, fields: changedFields(valueOf(before) ?? {}, valueOf(after)) };
}

/** What is stored torn is told as nothing: it must not keep what heals it from being looked at. */
function valueOf(text: string | null): unknown {
  try {
    return text === null ? undefined : JSON.parse(text);
  } catch {
    return undefined;
  }
}
