import { createHmac } from "node:crypto";
import type { KeyPrimitives } from "../src/prompt-cache/cache-salt.ts";
import { deriveCacheSalt, deriveNamespace } from "../src/prompt-cache/cache-salt.ts";
import type { TenantId } from "../src/protocol/ids.ts";
import type { Settings } from "./settings.ts";

const encoder = new TextEncoder();

const PRIMITIVES: KeyPrimitives = {
  hmacSha256: (key, message) => createHmac("sha256", key).update(message).digest(),
  encodeUtf8: (text) => encoder.encode(text),
};

/** No tenant's cache has ever been purged: that comes with the command for it. */
const GENERATION = 0;

/**
 * Derives the KV namespace in which a replica may share cached blocks for this request: one a
 * tenant and a model, or a narrower one where the client sent a salt of its own.
 */
export function cacheSaltOf(
  request: {
    readonly tenantId: TenantId;
    readonly upstreamModel: string;
    readonly clientSalt: string | undefined;
  },
  settings: Settings,
): string {
  const { tenantId, upstreamModel, clientSalt } = request;
  const owner = {
    tenantId,
    generation: GENERATION,
    ...(clientSalt !== undefined && { clientSalt }),
  };
  const namespace = deriveNamespace(owner, settings.cacheMaster, PRIMITIVES);
  return deriveCacheSalt(namespace, upstreamModel, PRIMITIVES);
}
