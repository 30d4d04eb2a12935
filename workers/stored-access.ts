import type { TenantAccess } from "../src/tenants/live-configuration.ts";
import type { Frame, SqlRow } from "./stored-configuration.ts";
import { readSqlRow } from "./stored-configuration.ts";

/** A key's row with that of its tenant beside it. */
type KeyRow = SqlRow & { tenant_value: string; tenant_digest: string };

/** Everything in it is found by a primary key, however many keys and tenants there are. */
const QUERY = `SELECT key.*, tenant.value AS tenant_value, tenant.digest AS tenant_digest
  FROM live_rows AS key JOIN live_rows AS tenant ON tenant.kind = 'tenant' AND tenant.id = key.tenant_id
  WHERE key.kind = 'key' AND key.id = ?`;

/** Puts together what an edge needs to serve a key; undefined for a key that nobody has. */
export function findAccess(
  sql: SqlStorage,
  frame: Frame,
  keyHash: string,
): TenantAccess | undefined {
  const [row] = sql.exec<KeyRow>(QUERY, keyHash).toArray();
  if (row === undefined || row.tenant_id === null) return undefined;
  const key = readSqlRow(row);
  const { tenant_id: id, tenant_value: value, tenant_digest: digest } = row;
  const owner = readSqlRow({ kind: "tenant", id, tenant_id: null, name: null, value, digest });
  if (key.kind !== "key" || owner.kind !== "tenant") return undefined;
  const { hash, name, tenantId: _owner, ...validity } = key.thing;
  const tenant = owner.thing;
  return {
    tenant,
    keyName: name,
    keyHash: hash,
    models: tenant.modelIds.flatMap((modelId) => frame.models.get(modelId) ?? []),
    ...validity,
    configurationVersion: frame.version,
  };
}
