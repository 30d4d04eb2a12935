import type { JWTVerifyGetKey } from "jose";
import { createRemoteJWKSet, customFetch } from "jose";
import { readBody } from "./read-body.ts";

const FETCH_MS_MAX = 2_000;
/** Some dozen keys; nobody has more. */
const JWKS_BYTES_MAX = 65_536;
/** Keys are taken for true for so long. */
const FRESH_MS = 600_000;
/** After a fetch a token with a key that is not in the set makes nobody fetch again for so long. */
const COOLDOWN_MS = 30_000;
/** After a failure nobody tries again for so long. */
const RETRY_AFTER_MS = 5_000;
/** Sets that an isolate remembers: of the issuers that are configured, and were until lately. */
const SETS_MAX = 16;

/** The keys of an issuer cannot be had at the moment, so nothing can be said of its tokens. */
export class JwksAway extends Error {
  override readonly name = "JwksAway";
}

// One per isolate. The library never waits for another request's fetch, which a Worker must not.
const sets = new Map<string, JWTVerifyGetKey>();

/** The public keys at a URL of the configuration, fetched when they are needed, and seldom. */
export function jwksAt(url: string): JWTVerifyGetKey {
  const known = sets.get(url);
  if (known !== undefined) return known;
  let failedAtMs = -Infinity;
  const set = createRemoteJWKSet(new URL(url), {
    timeoutDuration: FETCH_MS_MAX,
    cacheMaxAge: FRESH_MS,
    cooldownDuration: COOLDOWN_MS,
    [customFetch]: async (_url, { signal }) => {
      if (Date.now() - failedAtMs < RETRY_AFTER_MS) throw new JwksAway("It failed just now");
      try {
        return await fetchKeys(url, signal);
      } catch (error) {
        failedAtMs = Date.now();
        throw new JwksAway(String(error));
      }
    },
  });
  sets.set(url, set);
  const oldest = sets.keys().next();
  if (sets.size > SETS_MAX && oldest.done !== true) sets.delete(oldest.value);
  return set;
}

/** A redirect is no answer: only what is configured is ever called. */
async function fetchKeys(url: string, signal: AbortSignal): Promise<Response> {
  const response = await fetch(url, {
    signal,
    redirect: "manual",
    headers: { accept: "application/json" },
  });
  if (response.status !== 200) {
    await response.body?.cancel();
    throw new Error(`Expected status 200, found ${response.status}`);
  }
  const bytes = await readBody(response.body, JWKS_BYTES_MAX);
  if (bytes === undefined) throw new Error(`Expected at most ${JWKS_BYTES_MAX} bytes`);
  const keys: unknown = JSON.parse(new TextDecoder().decode(bytes));
  if (!Array.isArray(Object(keys).keys)) throw new Error("Expected a set of keys");
  return Response.json(keys);
}
