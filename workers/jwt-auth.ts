import type { JWTPayload } from "jose";
import { decodeJwt, errors, jwtVerify } from "jose";
import { TenantId } from "../src/protocol/ids.ts";
import type { LiveJwtIssuer } from "../src/tenants/jwt-issuer.ts";
import type { TenantAccess } from "../src/tenants/tenant-access.ts";
import { DIRECTORY_NAME } from "./directory-object.ts";
import type { Env } from "./env.ts";
import { GatewayError, StaleKeyError } from "./gateway-error.ts";
import { jwksAt, JwksAway } from "./jwks.ts";
import { findAccess, RETRY_AFTER_MS } from "./known-access.ts";
import { logLine } from "./log.ts";
import { withinMs } from "./within-ms.ts";

/** Tokens are longer than keys, and still bounded. */
export const JWT_LENGTH_MAX = 8_192;
const JWT = /^eyJ[\w-]*\.[\w-]+\.[\w-]*$/;

/** Clocks of issuers and edges differ by this at the most. */
const CLOCK_TOLERANCE_SECONDS = 5;
/** As with keys: a change is in force after 5 s, and an absent Directory is bridged for ten minutes. */
const ISSUERS_FRESH_MS = 5_000;
const ISSUERS_LAST_GOOD_MS = 600_000;
const ISSUERS_RETRY_MS = 1_000;
const READ_MS_MAX = 2_000;

interface KnownIssuers {
  readonly issuers: readonly LiveJwtIssuer[];
  readonly confirmedAtMs: number;
  askAgainAtMs: number;
}

// Of this isolate.
let known: KnownIssuers | undefined;

/** Where and when a token came. */
interface TokenPlace {
  readonly env: Env;
  readonly nowMs: number;
}

/** Whether a bearer has the form of a JWT, which no key of ours has. */
export function isJwt(bearer: string): boolean {
  return JWT.test(bearer);
}

/**
 * Tells which tenant a JWT stands for: one of an issuer that the configuration trusts, for this gateway, by its
 * own keys. What the token says decides neither whom we call nor by which algorithm it is checked. Throws
 * `invalid_api_key`, and `not_configured` while the issuer's keys or the Directory cannot be had.
 */
export async function authenticateJwt(token: string, place: TokenPlace): Promise<TenantAccess> {
  const claimed = readIssuer(token);
  const issuer = (await issuersNow(place)).find((candidate) => candidate.issuer === claimed);
  if (issuer === undefined) throw invalidToken("its issuer is not trusted here");
  const payload = await verify(token, issuer, place.nowMs);
  const tenantId = TenantId.safeParse(ownClaim(payload, issuer.tenantClaim));
  if (!tenantId.success) throw staleToken(`its claim '${issuer.tenantClaim}' names no tenant`);
  if (issuer.tenantIds?.includes(tenantId.data) === false) {
    throw staleToken("its issuer does not speak for that tenant");
  }
  const name = `tenant:${tenantId.data}`;
  const access = await findAccess(name, place, {
    ask: (directory, knownState) => directory.lookupTenant(tenantId.data, knownState),
  });
  if (access === undefined) throw staleToken("its tenant is not known here");
  return { ...access, keyName: `jwt:${issuer.name}` };
}

async function verify(token: string, issuer: LiveJwtIssuer, nowMs: number): Promise<JWTPayload> {
  try {
    const { payload } = await jwtVerify(token, jwksAt(issuer.jwksUrl), {
      issuer: issuer.issuer,
      audience: issuer.audience,
      algorithms: [...issuer.algorithms],
      requiredClaims: ["exp"],
      clockTolerance: CLOCK_TOLERANCE_SECONDS,
      currentDate: new Date(nowMs),
    });
    return payload;
  } catch (error) {
    // These are judged behind the signature.
    if (error instanceof errors.JWTExpired) throw staleToken("it has expired");
    if (error instanceof errors.JWTClaimValidationFailed) {
      throw staleToken(`its claim '${error.claim}' is not as it should be`);
    }
    if (error instanceof JwksAway || error instanceof errors.JWKSTimeout)
      throw keysAway(issuer, error);
    throw invalidToken("its signature cannot be checked");
  }
}

/** Reads what a token says before anything of it is believed. */
function readIssuer(token: string): string | undefined {
  try {
    return decodeJwt(token).iss;
  } catch {
    throw invalidToken("it is none");
  }
}

async function issuersNow({ env, nowMs }: TokenPlace): Promise<readonly LiveJwtIssuer[]> {
  if (known !== undefined && nowMs < known.askAgainAtMs) return known.issuers;
  try {
    const directory = env.DIRECTORY.getByName(DIRECTORY_NAME);
    const issuers = await withinMs(directory.jwtIssuers(), READ_MS_MAX);
    known = { issuers, confirmedAtMs: nowMs, askAgainAtMs: nowMs + ISSUERS_FRESH_MS };
    return issuers;
  } catch (error) {
    const isGood = known !== undefined && nowMs < known.confirmedAtMs + ISSUERS_LAST_GOOD_MS;
    logLine("error", "directory-away", { reason: String(error), isServed: isGood });
    if (known === undefined || !isGood) {
      throw new GatewayError({ code: "not_configured", retryAfterMs: RETRY_AFTER_MS });
    }
    known.askAgainAtMs = nowMs + ISSUERS_RETRY_MS;
    return known.issuers;
  }
}

function ownClaim(payload: JWTPayload, name: string): unknown {
  return Object.hasOwn(payload, name) ? payload[name] : undefined;
}

function keysAway({ name }: LiveJwtIssuer, error: Error): GatewayError {
  logLine("error", "jwks-away", { issuer: name, details: error.message });
  const message = "The keys of the token's issuer cannot be had at the moment";
  return new GatewayError({ code: "not_configured", message, retryAfterMs: RETRY_AFTER_MS });
}

function invalidToken(reason: string): GatewayError {
  return new GatewayError({ code: "invalid_api_key", message: toMessage(reason) });
}

/** One whose issuer has signed it, so that nobody has made it up. */
function staleToken(reason: string): GatewayError {
  return new StaleKeyError(toMessage(reason));
}

function toMessage(reason: string): string {
  return `The token is not valid: ${reason}`;
}
