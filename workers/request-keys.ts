import { createHash, createHmac } from "node:crypto";
import { deriveAnswerKey } from "../src/prompt-cache/answer-key.ts";
import { encodeBase64Url } from "../src/prompt-cache/base64url.ts";
import { deriveCacheSalt, deriveNamespace } from "../src/prompt-cache/cache-salt.ts";
import type { KeyPrimitives } from "../src/prompt-cache/fields.ts";
import type { PromptKeys } from "../src/prompt-cache/prompt-keys.ts";
import { derivePromptKeys } from "../src/prompt-cache/prompt-keys.ts";
import type { RequestCaching } from "../src/protocol/request-caching.ts";
import { CACHE_DEFAULTS } from "../src/tenants/cache-section.ts";
import type { TenantAccess } from "../src/tenants/tenant-access.ts";
import type { Settings } from "./settings.ts";

/** All that caches and routes are keyed by for one request; every part of it is its owner's alone. */
export interface RequestKeys extends PromptKeys {
  /** In which KV namespace a replica may share cached blocks for it. */
  readonly cacheSalt: string;
  /** Under which its answer may be kept and given again; absent where it may not. */
  readonly answerKey?: string;
}

const encoder = new TextEncoder();

const PRIMITIVES: KeyPrimitives = {
  hmacSha256: (key, message) => createHmac("sha256", key).update(message).digest(),
  sha256: (...parts) => {
    const hash = createHash("sha256");
    for (const part of parts) hash.update(part);
    return hash.digest();
  },
  encodeUtf8: (text) => encoder.encode(text),
};

/** Names the canonical form of prompts, and stands for templates: an edge does not know those. */
const TEMPLATE_REVISION = "1";
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
  const { tenant, cacheGeneration: generation } = access;
  const { prompts, answers, scope } = tenant.cache ?? CACHE_DEFAULTS;
  if (caching.isOff) return uncachedKeys();
  const { promptParts, userName, clientSalt, cacheKey } = caching;
  const owner = {
    tenantId: tenant.tenantId,
    generation,
    ...(scope === "user" && userName !== undefined && { userName }),
    ...(clientSalt !== undefined && { clientSalt }),
  };
  const namespace = deriveNamespace(owner, settings.cacheMaster, PRIMITIVES);
  const { answer } = request;
  const kept = answers &&
    answer !== undefined && {
      answerKey: deriveAnswerKey(
        namespace,
        { ...answer, modelRevision: upstreamModel },
        PRIMITIVES,
      ),
    };
  if (!prompts) return { ...uncachedKeys(), ...kept };
  const prompt = {
    parts: promptParts,
    modelRevision: upstreamModel,
    templateRevision: TEMPLATE_REVISION,
    ...(cacheKey !== undefined && { cacheKey }),
  };
  return {
    cacheSalt: deriveCacheSalt(namespace, upstreamModel, PRIMITIVES),
    ...derivePromptKeys(namespace, prompt, PRIMITIVES),
    ...kept,
  };
}

function uncachedKeys(): RequestKeys {
  const cacheSalt = encodeBase64Url(crypto.getRandomValues(new Uint8Array(SALT_BYTES)));
  return { cacheSalt, route: cacheSalt, hashes: [], promptBytes: 0 };
}
