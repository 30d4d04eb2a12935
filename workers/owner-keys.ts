import { createHash, createHmac } from "node:crypto";
import { deriveCacheSalt, deriveNamespace } from "../src/prompt-cache/cache-salt.ts";
import type { KeyPrimitives } from "../src/prompt-cache/fields.ts";
import { deriveChainRoot } from "../src/prompt-cache/prompt-keys.ts";
import type { TenantAccess } from "../src/tenants/tenant-access.ts";
import type { Settings } from "./settings.ts";

/** What is the same in each request of one owner for one model. */
export interface OwnerKeys {
  /** By which an engine can tell tenants apart and nobody can tell who they are. */
  readonly opaqueTenant: string;
  /** Parent of all that is cached for the owner; it never leaves the edge. */
  readonly namespace: Uint8Array;
  readonly cacheSalt: string;
  /** Parent of a prompt's first hash. */
  readonly chainRoot: Uint8Array;
}

/** What a client says to narrow its tenant's namespace. */
interface Narrowing {
  readonly userName?: string;
  readonly clientSalt?: string;
}

type Owner = Pick<TenantAccess, "tenant" | "cacheGeneration">;

const encoder = new TextEncoder();

export const KEY_PRIMITIVES: KeyPrimitives = {
  hmacSha256: (key, message) => createHmac("sha256", key).update(message).digest(),
  sha256: (...parts) => {
    const hash = createHash("sha256");
    for (const part of parts) hash.update(part);
    return hash.digest();
  },
  encodeUtf8: (text) => encoder.encode(text),
};

/** Stands for the templates by which messages become a prompt: an edge does not know those. */
const TEMPLATE_REVISION = "1";
/** Long enough that two tenants never share a name by chance. */
const TENANT_NAME_LENGTH = 22;

interface KeptKeys {
  readonly master: Uint8Array;
  /** The models are the configuration's, so there are not many. */
  readonly byModel: Map<string, OwnerKeys>;
}

// It goes with the answer of the Directory that it was derived for.
const keptByOwner = new WeakMap<Owner, KeptKeys>();

/**
 * Derives an owner's keys, or finds them: they cost more than what is a request's own. Those of what a client
 * says of itself are not kept, since there is no end of that.
 */
export function ownerKeysOf(
  owner: Owner,
  modelRevision: string,
  narrowing: Narrowing,
  { cacheMaster }: Pick<Settings, "cacheMaster">,
): OwnerKeys {
  const isNarrowed = narrowing.userName !== undefined || narrowing.clientSalt !== undefined;
  if (isNarrowed) return derive(owner, modelRevision, narrowing, cacheMaster);
  let kept = keptByOwner.get(owner);
  if (kept?.master !== cacheMaster) {
    kept = { master: cacheMaster, byModel: new Map() };
    keptByOwner.set(owner, kept);
  }
  let keys = kept.byModel.get(modelRevision);
  if (keys === undefined) {
    keys = derive(owner, modelRevision, narrowing, cacheMaster);
    kept.byModel.set(modelRevision, keys);
  }
  return keys;
}

function derive(
  { tenant: { tenantId }, cacheGeneration: generation }: Owner,
  modelRevision: string,
  narrowing: Narrowing,
  master: Uint8Array,
): OwnerKeys {
  const namespace = deriveNamespace({ tenantId, generation, ...narrowing }, master, KEY_PRIMITIVES);
  const model = { modelRevision, templateRevision: TEMPLATE_REVISION };
  return {
    opaqueTenant: createHmac("sha256", master)
      .update(`gw/tenant/v1\n${tenantId}`)
      .digest("base64url")
      .slice(0, TENANT_NAME_LENGTH),
    namespace,
    cacheSalt: deriveCacheSalt(namespace, modelRevision, KEY_PRIMITIVES),
    chainRoot: deriveChainRoot(namespace, model, KEY_PRIMITIVES),
  };
}
