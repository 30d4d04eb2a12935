import { DEFAULT_KEY_SCOPES } from "../src/tenants/key-scope.ts";
import type { ModelId } from "../src/protocol/ids.ts";
import type { LiveModel, LiveTenant } from "../src/tenants/live-configuration.ts";
import type { TenantAccess } from "../src/tenants/tenant-access.ts";
import { fallbackModelsOf } from "../src/tenants/overload-step.ts";
import type { Frame, SqlRow } from "./stored-configuration.ts";
import { readSqlRow } from "./stored-configuration.ts";

/** What the configuration says of it. */
export type FoundAccess = Omit<TenantAccess, "cacheGeneration" | "directoryState">;

/** What the Directory answers to who asks whose key this is. */
export type KeyLookup =
  | { readonly kind: "known"; readonly access: TenantAccess }
  | { readonly kind: "unknown" }
  /** What the asker knows is true still. */
  | { readonly kind: "unchanged" }
  /** Nothing was ever applied, so no key can be called wrong. */
  | { readonly kind: "unconfigured" };

/** A key's row with that of its tenant and what was said of its end beside it. */
type KeyRow = SqlRow & { tenant_value: string; tenant_digest: string; ends_at_ms: number | null };

/** Everything in it is found by a primary key, however many keys and tenants there are. */
export const ACCESS_QUERY = `
SELECT key.*, tenant.value AS tenant_value, tenant.digest AS tenant_digest, ends_at_ms FROM (
  SELECT kind, id, tenant_id, name, value, digest FROM live_rows WHERE kind = 'key' AND id = ?1
  UNION ALL
  SELECT kind, id, tenant_id, name, value, digest FROM issued_keys WHERE id = ?1
  ) AS key
  JOIN live_rows AS tenant ON tenant.kind = 'tenant' AND tenant.id = key.tenant_id
  LEFT JOIN key_endings ON key_endings.hash = key.id
  LIMIT 1`;

/** Puts together what an edge needs to serve a key; undefined for a key that nobody has. */
export function findAccess(
  sql: SqlStorage,
  frame: Frame,
  keyHash: string,
): FoundAccess | undefined {
  const [row] = sql.exec<KeyRow>(ACCESS_QUERY, keyHash).toArray();
  if (row === undefined || row.tenant_id === null) return undefined;
  const key = readSqlRow(row);
  const { tenant_id: id, tenant_value: value, tenant_digest: digest } = row;
  const owner = readSqlRow({ kind: "tenant", id, tenant_id: null, name: null, value, digest });
  if (key.kind !== "key" || owner.kind !== "tenant") return undefined;
  const {
    hash,
    name,
    notBeforeAtMs,
    scopes = DEFAULT_KEY_SCOPES,
    modelIds,
    classNames,
  } = key.thing;
  const tenant = owner.thing;
  const expiresAtMs = Math.min(key.thing.expiresAtMs ?? Infinity, row.ends_at_ms ?? Infinity);
  const isOfKey = (modelId: ModelId): boolean =>
    modelIds === undefined || modelIds.includes(modelId);
  const modelsOf = (ids: readonly ModelId[]): LiveModel[] =>
    ids.filter(isOfKey).flatMap((modelId) => frame.models.get(modelId) ?? []);
  return {
    tenant,
    keyName: name,
    keyHash: hash,
    scopes,
    models: modelsOf(tenant.modelIds),
    fallbackModels: modelsOf(fallbackModelsOf(tenant.overload)),
    ...(classNames !== undefined && { classNames }),
    ...(notBeforeAtMs !== undefined && { notBeforeAtMs }),
    ...(expiresAtMs !== Infinity && { expiresAtMs }),
    configurationVersion: frame.version,
  };
}

/** The same for a tenant that is vouched for by a token: all that its keys may do unless they say otherwise. */
export function accessOfTenant(frame: Frame, tenant: LiveTenant): FoundAccess {
  const modelsOf = (ids: readonly ModelId[]): LiveModel[] =>
    ids.flatMap((modelId) => frame.models.get(modelId) ?? []);
  return {
    tenant,
    keyName: "jwt",
    keyHash: "",
    scopes: DEFAULT_KEY_SCOPES,
    models: modelsOf(tenant.modelIds),
    fallbackModels: modelsOf(fallbackModelsOf(tenant.overload)),
    configurationVersion: frame.version,
  };
}
