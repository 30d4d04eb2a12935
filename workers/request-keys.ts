import { deriveAnswerKey } from "../src/prompt-cache/answer-key.ts";
import { encodeBase64Url } from "../src/prompt-cache/base64url.ts";
import type { PromptKeys } from "../src/prompt-cache/prompt-keys.ts";
import { derivePromptKeys } from "../src/prompt-cache/prompt-keys.ts";
import type { RequestCaching } from "../src/protocol/request-caching.ts";
import { CACHE_DEFAULTS } from "../src/tenants/cache-section.ts";
import type { TenantAccess } from "../src/tenants/tenant-access.ts";
import type { OwnerKeys } from "./owner-keys.ts";
import { KEY_PRIMITIVES, ownerKeysOf } from "./owner-keys.ts";
import type { Settings } from "./settings.ts";

/** All that caches and routes are keyed by for one request; every part of it is its owner's alone. */
export interface RequestKeys extends PromptKeys {
  /** By which an engine can tell tenants apart and nobody can tell who they are. */
  readonly opaqueTenant: string;
  /** In which KV namespace a replica may share cached blocks for it. */
  readonly cacheSalt: string;
  /** Under which its answer may be kept and given again; absent where it may not. */
  readonly answerKey?: string;
}

const SALT_BYTES = 32;

/**
 * Derives a request's keys. One that opts out, or whose tenant does, gets a salt that nobody has had or
 * will have: nothing is found for it, and nobody finds what it leaves.
 */
export function requestKeysOf(
  request: {
    readonly upstreamModel: string;
    readonly caching: RequestCaching;
    /** Absent where it allows more than one answer. */
    readonly answer?: { readonly path: string; readonly canonical: string };
  },
  access: Pick<TenantAccess, "tenant" | "cacheGeneration">,
  settings: Pick<Settings, "cacheMaster">,
): RequestKeys {
  const { upstreamModel, caching } = request;
  const { prompts, answers, scope } = access.tenant.cache ?? CACHE_DEFAULTS;
  const { promptParts, userName, clientSalt, cacheKey } = caching;
  const narrowing = {
    ...(scope === "user" && userName !== undefined && { userName }),
    ...(clientSalt !== undefined && { clientSalt }),
  };
  const owner = ownerKeysOf(access, upstreamModel, narrowing, settings);
  if (caching.isOff) return uncachedKeys(owner);
  const { answer } = request;
  const kept = answers &&
    answer !== undefined && {
      answerKey: deriveAnswerKey(
        owner.namespace,
        { ...answer, modelRevision: upstreamModel },
        KEY_PRIMITIVES,
      ),
    };
  if (!prompts) return { ...uncachedKeys(owner), ...kept };
  const prompt = {
    parts: promptParts,
    modelRevision: upstreamModel,
    ...(cacheKey !== undefined && { cacheKey }),
  };
  return {
    opaqueTenant: owner.opaqueTenant,
    cacheSalt: owner.cacheSalt,
    ...derivePromptKeys(owner, prompt, KEY_PRIMITIVES),
    ...kept,
  };
}

function uncachedKeys({ opaqueTenant }: OwnerKeys): RequestKeys {
  const cacheSalt = encodeBase64Url(crypto.getRandomValues(new Uint8Array(SALT_BYTES)));
  return { opaqueTenant, cacheSalt, route: cacheSalt, hashes: [], promptBytes: 0 };
}
