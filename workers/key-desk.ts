import type { TenantId } from "../src/protocol/ids.ts";
import type { KeyPermissions, LiveKey } from "../src/tenants/live-configuration.ts";
import type { StoredConfiguration } from "./stored-configuration.ts";
import type { KeyRecord, StoredKeys } from "./stored-keys.ts";
import { ISSUED_KEYS_MAX } from "./stored-keys.ts";

/** A key that was made at an edge, which tells nobody but its holder more than this. */
export interface NewKey {
  readonly name: string;
  readonly hash: string;
}

/** Which key of which tenant, and when this is said. */
export interface KeyPlace {
  readonly tenantId: TenantId;
  readonly name: string;
  readonly actor: string;
  readonly nowMs: number;
}

/** What became of a wish about a key. */
export type KeyVerdict =
  | { readonly kind: "done"; readonly key: KeyRecord }
  | { readonly kind: "unknown-tenant" | "unknown-key" | "name-taken" | "too-many" };

/** The keys of a tenant as they are known here. */
export interface Desk {
  readonly configuration: StoredConfiguration;
  readonly keys: StoredKeys;
}

/** Issues a key to a tenant. */
export function issueKey(
  { configuration, keys }: Desk,
  place: KeyPlace & { readonly hash: string },
  permissions: KeyPermissions,
): KeyVerdict {
  const { tenantId, name, hash } = place;
  if (!configuration.has("tenant", tenantId)) return { kind: "unknown-tenant" };
  if (keys.find(tenantId, name) !== undefined) return { kind: "name-taken" };
  if (keys.countIssued() >= ISSUED_KEYS_MAX) return { kind: "too-many" };
  const key: LiveKey = { hash, tenantId, name, ...permissions };
  keys.issue(key, place);
  return doneWith(keys, place);
}

/**
 * Issues a key in the place of another one, which may do the same and works beside it for a while: long enough
 * for everybody who has it to change over.
 */
export function rotateKey(
  { configuration, keys }: Desk,
  place: KeyPlace,
  successor: NewKey & { readonly overlapMs: number; readonly expiresAtMs?: number },
): KeyVerdict {
  const { tenantId, nowMs } = place;
  if (!configuration.has("tenant", tenantId)) return { kind: "unknown-tenant" };
  const found = keys.find(tenantId, place.name);
  if (found === undefined) return { kind: "unknown-key" };
  if (keys.find(tenantId, successor.name) !== undefined) return { kind: "name-taken" };
  if (keys.countIssued() >= ISSUED_KEYS_MAX) return { kind: "too-many" };
  const { notBeforeAtMs: _begun, expiresAtMs: _ending, ...permissions } = found.key;
  const { name, hash, overlapMs, expiresAtMs } = successor;
  const validity = expiresAtMs !== undefined && { expiresAtMs };
  keys.issue({ ...permissions, ...validity, name, hash }, place);
  keys.end(found.key.hash, nowMs + overlapMs, nowMs);
  return doneWith(keys, { ...place, name });
}

/** Ends a key at once and for good: no file and no rollback brings it back. */
export function revokeKey({ configuration, keys }: Desk, place: KeyPlace): KeyVerdict {
  if (!configuration.has("tenant", place.tenantId)) return { kind: "unknown-tenant" };
  const found = keys.find(place.tenantId, place.name);
  if (found === undefined) return { kind: "unknown-key" };
  keys.end(found.key.hash, place.nowMs, place.nowMs);
  keys.withdraw(found.key.hash);
  return { kind: "done", key: { ...found.record, expiresAtMs: place.nowMs } };
}

function doneWith(keys: StoredKeys, { tenantId, name }: KeyPlace): KeyVerdict {
  const issued = keys.find(tenantId, name);
  return issued === undefined ? { kind: "unknown-key" } : { kind: "done", key: issued.record };
}
