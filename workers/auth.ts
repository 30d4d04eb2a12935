import { createHash, createHmac, timingSafeEqual } from "node:crypto";
import { checksumOf, splitApiKey } from "../src/tenants/api-key.ts";
import type { KeyScope } from "../src/tenants/key-scope.ts";
import type { TenantAccess } from "../src/tenants/tenant-access.ts";
import type { Env } from "./env.ts";
import { GatewayError, StaleKeyError } from "./gateway-error.ts";
import { authenticateJwt, isJwt, JWT_LENGTH_MAX } from "./jwt-auth.ts";
import { admitLookup, countingFailures, noteFailure } from "./key-guard.ts";
import { keyUses } from "./key-uses.ts";
import { findAccess } from "./known-access.ts";
import type { Settings } from "./settings.ts";

/** Keys of ours are far shorter; a longer one is junk and costs no hash and no look-up. */
const API_KEY_LENGTH_MAX = 512;
const VISIBLE_ASCII = /^[\x21-\x7e]+$/;

/** Begins whatever can be a key of a tenant; the secrets of the gateway itself begin otherwise. */
const KEY_PREFIX = "sk-";

/** Who changes something with the secret of the Worker. */
const BOOTSTRAP_ACTOR = "bootstrap";

/** Where a request is authenticated, and what for. */
export interface AuthenticationWish {
  readonly env: Env;
  readonly settings: Settings;
  readonly nowMs: number;
  /** What the key must be allowed to do. */
  readonly scope: KeyScope;
}

/**
 * Tells which tenant a request's API key (`Authorization: Bearer` or `x-api-key`) belongs to, or its JWT.
 *
 * Throws `missing_api_key` or `invalid_api_key`, `rate_limit_exceeded` to an address that sends such again and
 * again, `permission_denied` where the key or the page that it comes from may not do this, and `not_configured`
 * while the Directory cannot say. The key itself is hashed at once and goes nowhere.
 */
export function authenticate(headers: Headers, wish: AuthenticationWish): Promise<TenantAccess> {
  return countingFailures(headers, wish.nowMs, async () => {
    const bearer = readBearer(headers);
    if (!isJwt(bearer)) return authenticateKey(headers, bearer, wish);
    const access = await authenticateJwt(bearer, wish);
    refuseForeignPage(headers, access);
    return withScope(access, wish.scope);
  });
}

/** Whoever runs the gateway, by the secret of the Worker or by a key with scope `admin`; throws likewise. */
export function authenticateAdmin(
  headers: Headers,
  wish: Omit<AuthenticationWish, "scope">,
): Promise<string> {
  return countingFailures(headers, wish.nowMs, async () => {
    const bearer = readBearer(headers);
    if (isSameSecret(bearer, wish.settings.adminKey)) return BOOTSTRAP_ACTOR;
    // The Directory may be what has to be mended, and nobody needs to ask it about this one.
    if (!bearer.startsWith(KEY_PREFIX)) throw invalidApiKey();
    const access = await authenticateKey(headers, bearer, { ...wish, scope: "admin" });
    return `${access.tenant.tenantId}/${access.keyName}`;
  });
}

async function authenticateKey(
  headers: Headers,
  apiKey: string,
  { env, settings, nowMs, scope }: AuthenticationWish,
): Promise<TenantAccess> {
  // Local mode has keys that people have thought of, the demo keys among them.
  const isMadeByUs = isMadeHere(apiKey, settings);
  if (settings.mode === "production" && !isMadeByUs) throw invalidApiKey();
  const keyHash = createHmac("sha256", settings.keyPepper).update(apiKey).digest("hex");

  const access = await findAccess(
    keyHash,
    { env, nowMs },
    {
      ask: (directory, knownState) => directory.lookup(keyHash, knownState),
      admit: () => admitLookup(headers, nowMs, isMadeByUs),
    },
  );
  if (access === undefined || !isSameSecret(access.keyHash, keyHash)) {
    throw isMadeByUs ? new StaleKeyError() : invalidApiKey();
  }
  if (nowMs < (access.notBeforeAtMs ?? nowMs)) {
    throw new StaleKeyError("The API key is not valid yet");
  }
  if (nowMs >= (access.expiresAtMs ?? Number.POSITIVE_INFINITY)) {
    throw new StaleKeyError("The API key has expired");
  }
  refuseForeignPage(headers, access);
  keyUses.note(keyHash, nowMs);
  return withScope(access, scope);
}

/** Returns the access, or throws `permission_denied` where it is not for that. */
function withScope(access: TenantAccess, scope: KeyScope): TenantAccess {
  if (access.scopes.includes(scope)) return access;
  const found = access.scopes.join(", ");
  const message = `The API key may not do this: expected the scope ${scope}, found ${found}`;
  throw new GatewayError({ code: "permission_denied", message });
}

/** Whether a key ends as those do that are made with our pepper: all others are junk. */
function isMadeHere(apiKey: string, { keyPepper }: Settings): boolean {
  const parts = splitApiKey(apiKey);
  if (parts === undefined) return false;
  const expected = checksumOf(parts.body, (text) =>
    createHmac("sha256", keyPepper).update(text).digest("base64url"),
  );
  return isSameSecret(parts.checksum, expected);
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
  const lengthMax = isJwt(apiKey) ? JWT_LENGTH_MAX : API_KEY_LENGTH_MAX;
  if (apiKey.length > lengthMax || !VISIBLE_ASCII.test(apiKey)) throw invalidApiKey();
  return apiKey;
}

// Digests have one length whatever the secrets' lengths are, as the comparison demands.
function isSameSecret(a: string, b: string): boolean {
  return timingSafeEqual(sha256(a), sha256(b));
}

function sha256(text: string): Uint8Array {
  return createHash("sha256").update(text).digest();
}

function invalidApiKey(): GatewayError {
  return new GatewayError({ code: "invalid_api_key" });
}
