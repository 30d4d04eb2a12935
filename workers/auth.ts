import { createHash, createHmac, timingSafeEqual } from "node:crypto";
import { AccessCache } from "../src/tenants/access-cache.ts";
import type { TenantAccess } from "../src/tenants/live-configuration.ts";
import type { KeyLookup } from "./directory-object.ts";
import { DIRECTORY_NAME } from "./directory-object.ts";
import type { Env } from "./env.ts";
import { GatewayError } from "./gateway-error.ts";
import { admitLookup, countingFailures, noteFailure } from "./key-guard.ts";
import { logLine } from "./log.ts";
import type { Settings } from "./settings.ts";

/** Keys of ours are far shorter; a longer one is junk and costs no hash and no look-up. */
const API_KEY_LENGTH_MAX = 512;
const VISIBLE_ASCII = /^[\x21-\x7e]+$/;

/** Begins the keys of `sluice.local.yaml`, which everyone can read. */
const DEMO_KEY_PREFIX = "sk-sluice-demo-";

/** A Directory that takes longer than this counts as away: TTFT runs meanwhile. */
const LOOKUP_TIMEOUT_MS = 2_000;

/** What a client is told to wait before it tries again when we cannot tell whose key it is. */
const RETRY_AFTER_MS = 1_000;

// One per isolate, not per request: most requests then need no look-up at all.
const cache = new AccessCache();

/**
 * Tells which tenant a request's API key (`Authorization: Bearer` or `x-api-key`) belongs to.
 *
 * Throws `missing_api_key` or `invalid_api_key`, `rate_limit_exceeded` to an address that sends such again and
 * again, and `not_configured` while the Directory cannot
 * say; `permission_denied` where a page asks that is none of the tenant's. The key itself is hashed at once and
 * goes nowhere.
 */
export function authenticate(
  headers: Headers,
  env: Env,
  settings: Settings,
  nowMs: number,
): Promise<TenantAccess> {
  return countingFailures(headers, nowMs, () => identify(headers, env, settings, nowMs));
}

async function identify(
  headers: Headers,
  env: Env,
  settings: Settings,
  nowMs: number,
): Promise<TenantAccess> {
  const apiKey = readBearer(headers);
  if (settings.mode === "production" && apiKey.startsWith(DEMO_KEY_PREFIX)) throw invalidApiKey();
  const keyHash = createHmac("sha256", settings.keyPepper).update(apiKey).digest("hex");

  const access = await findAccess(keyHash, headers, env, nowMs);
  if (access === undefined || !isSameSecret(access.keyHash, keyHash)) throw invalidApiKey();
  if (nowMs < (access.notBeforeAtMs ?? nowMs)) {
    throw invalidApiKey("The API key is not valid yet");
  }
  if (nowMs >= (access.expiresAtMs ?? Number.POSITIVE_INFINITY)) {
    throw invalidApiKey("The API key has expired");
  }
  refuseForeignPage(headers, access);
  return access;
}

/** A key that pages use is in their source for everyone to read; its tenant says which pages those are. */
function refuseForeignPage(headers: Headers, { tenant: { origins } }: TenantAccess): void {
  const origin = headers.get("origin");
  if (origin === null || origins === undefined || origins.includes(origin)) return;
  throw new GatewayError({
    code: "permission_denied",
    message: "The API key may not be used from this page: its origin is none of the tenant's",
  });
}

/**
 * Throws `missing_api_key` or `invalid_api_key` unless the request carries this very secret, and
 * `rate_limit_exceeded` for an address from which too many did not.
 */
export function verifyBearer(headers: Headers, secret: string): void {
  try {
    if (!isSameSecret(readBearer(headers), secret)) throw invalidApiKey();
  } catch (error) {
    noteFailure(headers, Date.now(), error);
    throw error;
  }
}

function readBearer(headers: Headers): string {
  const bearer = /^bearer\s+(.*)$/i.exec(headers.get("authorization")?.trim() ?? "")?.[1];
  const apiKey = bearer ?? headers.get("x-api-key") ?? "";
  if (apiKey === "") throw new GatewayError({ code: "missing_api_key" });
  if (apiKey.length > API_KEY_LENGTH_MAX || !VISIBLE_ASCII.test(apiKey)) throw invalidApiKey();
  return apiKey;
}

async function findAccess(
  keyHash: string,
  headers: Headers,
  env: Env,
  nowMs: number,
): Promise<TenantAccess | undefined> {
  const remembered = cache.recall(keyHash, nowMs);
  if (remembered.kind === "known") return remembered.access;
  if (remembered.kind === "unknown") return undefined;
  // A key that was good lately is nobody's guess.
  if (!cache.wasGood(keyHash, nowMs)) admitLookup(headers, nowMs);
  const answer = await askDirectory(keyHash, env);
  if (answer.kind === "away") return lastGoodAccess(keyHash, nowMs, answer.reason);
  if (answer.kind === "unconfigured") {
    throw new GatewayError({ code: "not_configured", retryAfterMs: RETRY_AFTER_MS });
  }
  const access = answer.kind === "known" ? answer.access : undefined;
  cache.learn(keyHash, access, nowMs);
  return access;
}

type DirectoryAnswer = KeyLookup | { readonly kind: "away"; readonly reason: string };

async function askDirectory(keyHash: string, env: Env): Promise<DirectoryAnswer> {
  const answered = new AbortController();
  const overdue = scheduler
    .wait(LOOKUP_TIMEOUT_MS, { signal: answered.signal })
    .then((): DirectoryAnswer => ({ kind: "away", reason: "no answer in time" }));
  try {
    return await Promise.race([env.DIRECTORY.getByName(DIRECTORY_NAME).lookup(keyHash), overdue]);
  } catch (error) {
    return { kind: "away", reason: String(error) };
  } finally {
    answered.abort();
  }
}

function lastGoodAccess(keyHash: string, nowMs: number, reason: string): TenantAccess {
  const access = cache.recallLastGood(keyHash, nowMs);
  // Revocations do not reach this edge meanwhile, so somebody has to hear of it.
  logLine("error", "directory-away", { reason, isServed: access !== undefined });
  if (access !== undefined) return access;
  throw new GatewayError({
    code: "not_configured",
    message: "The directory of tenants cannot be read at the moment",
    retryAfterMs: RETRY_AFTER_MS,
  });
}

// Digests have one length whatever the secrets' lengths are, as the comparison demands.
function isSameSecret(a: string, b: string): boolean {
  return timingSafeEqual(sha256(a), sha256(b));
}

function sha256(text: string): Uint8Array {
  return createHash("sha256").update(text).digest();
}

function invalidApiKey(message?: string): GatewayError {
  return new GatewayError({ code: "invalid_api_key", ...(message !== undefined && { message }) });
}
