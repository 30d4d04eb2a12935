import type { TenantId } from "../protocol/ids.ts";
import { encodeBase64Url } from "./base64url.ts";
import type { KeyPrimitives } from "./fields.ts";
import { concatenate, field, uint32 } from "./fields.ts";

/** Whose cached blocks a request may read and write. */
export interface CacheOwner {
  readonly tenantId: TenantId;
  /** Raised to forget everything that was cached for the tenant. */
  readonly generation: number;
  /** The end user, where each of the tenant's has a namespace of its own. */
  readonly userName?: string;
  /** The client's own `cache_salt`. It can only narrow the namespace, never reach another one. */
  readonly clientSalt?: string;
}

const TAG = { namespace: 16, tenant: 17, user: 18, clientSalt: 19, salt: 29, model: 30 } as const;

/**
 * Derives the parent of everything that is cached for an owner: 32 bytes that never leave the edge.
 * `master` is the deployment's 32-byte secret.
 */
export function deriveNamespace(
  owner: CacheOwner,
  master: Uint8Array,
  { hmacSha256, encodeUtf8 }: KeyPrimitives,
): Uint8Array {
  const message = concatenate(
    field(TAG.namespace, encodeUtf8("gw/ns/v1")),
    field(TAG.tenant, encodeUtf8(owner.tenantId)),
    uint32(owner.generation),
    field(TAG.user, encodeUtf8(owner.userName ?? "")),
    field(TAG.clientSalt, encodeUtf8(owner.clientSalt ?? "")),
  );
  return hmacSha256(master, message);
}

/**
 * Derives what an engine makes the parent of block 0: 43 characters of base64url. Two owners never
 * share one, so they never share a KV block; it tells the engine nothing about the owner.
 */
export function deriveCacheSalt(
  namespace: Uint8Array,
  modelRevision: string,
  { hmacSha256, encodeUtf8 }: KeyPrimitives,
): string {
  const message = concatenate(
    field(TAG.salt, encodeUtf8("gw/salt/v1")),
    field(TAG.model, encodeUtf8(modelRevision)),
  );
  return encodeBase64Url(hmacSha256(namespace, message));
}
