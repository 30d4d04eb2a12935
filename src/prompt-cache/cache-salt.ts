import type { TenantId } from "../protocol/ids.ts";
import { encodeBase64Url } from "./base64url.ts";

/** What the platform lends to the derivations; `src` itself has neither. */
export interface KeyPrimitives {
  readonly hmacSha256: (key: Uint8Array, message: Uint8Array) => Uint8Array;
  readonly encodeUtf8: (text: string) => Uint8Array;
}

/** Whose cached blocks a request may read and write. */
export interface CacheOwner {
  readonly tenantId: TenantId;
  /** Raised to forget everything that was cached for the tenant. */
  readonly generation: number;
  /** The client's own `cache_salt`. It can only narrow the namespace, never reach another one. */
  readonly clientSalt?: string;
}

// Each derived value has a tag of its own before every field, and every field carries its length:
// no two different lists of fields are ever the same bytes.
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
    // A namespace per end user is not offered yet: the field is there and empty.
    field(TAG.user, encodeUtf8("")),
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

function field(tag: number, bytes: Uint8Array): Uint8Array {
  return concatenate(Uint8Array.of(tag), uint32(bytes.length), bytes);
}

/** Four bytes, most significant first. */
function uint32(value: number): Uint8Array {
  return Uint8Array.of(value >>> 24, value >>> 16, value >>> 8, value);
}

function concatenate(...parts: readonly Uint8Array[]): Uint8Array {
  const whole = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let offset = 0;
  for (const part of parts) {
    whole.set(part, offset);
    offset += part.length;
  }
  return whole;
}
