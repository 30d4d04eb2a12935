import { TokenBuckets } from "../src/base/token-buckets.ts";
import { AddressGuard } from "../src/tenants/address-guard.ts";
import { GatewayError, StaleKeyError } from "./gateway-error.ts";

/** As the platform says it. Under `workerd` alone there is none, unless what stands in front sets it. */
const ADDRESS_HEADER = "cf-connecting-ip";
const BUSY_RETRY_MS = 1_000;
/** Lines in the log about requests of nobody's: enough to see that there are such, and of what kind. */
const STRANGER_LINES = { burst: 20, perSecond: 1 };

// One per isolate: before any object is asked, so that there is nobody to share it with.
const guard = new AddressGuard();
const strangerLines = new TokenBuckets(STRANGER_LINES, 1);

/**
 * Counts who fails to say who it is: `missing_api_key` and `invalid_api_key` become
 * `rate_limit_exceeded` for an address that has failed too often.
 */
export async function countingFailures<Result>(
  headers: Headers,
  nowMs: number,
  identify: () => Result | Promise<Result>,
): Promise<Result> {
  try {
    return await identify();
  } catch (error) {
    noteFailure(headers, nowMs, error);
    throw error;
  }
}

/** Notes a failure of either kind, and throws another one where there were too many; others are nothing to it. */
export function noteFailure(headers: Headers, nowMs: number, error: unknown): void {
  if (!(error instanceof GatewayError) || error instanceof StaleKeyError) return;
  const { code } = error.problem;
  if (code !== "missing_api_key" && code !== "invalid_api_key") return;
  const address = addressOf(headers);
  refuseBlocked(address, nowMs);
  guard.failed(address, nowMs);
}

/**
 * Lets a key be looked up that nobody here has met, or throws why it is not. One that was made by us is no
 * guess, so nobody else's guesses at its address are held against it.
 */
export function admitLookup(headers: Headers, nowMs: number, isMadeByUs: boolean): void {
  if (!isMadeByUs) refuseBlocked(addressOf(headers), nowMs);
  if (guard.takeLookup(nowMs)) return;
  throw new GatewayError({
    code: "server_is_overloaded",
    message: "Too many unknown API keys are looked up at the moment",
    retryAfterMs: BUSY_RETRY_MS,
  });
}

/** Whether the log has room for a request that did not say whose it is: all of them together share it. */
export function admitStrangersLine(nowMs: number): boolean {
  return strangerLines.take("", nowMs) === undefined;
}

function refuseBlocked(address: string | undefined, nowMs: number): void {
  const retryAfterMs = guard.blockedMs(address, nowMs);
  if (retryAfterMs <= 0) return;
  const seconds = Math.ceil(retryAfterMs / 1000);
  throw new GatewayError({
    code: "rate_limit_exceeded",
    message: `Too many requests without a valid API key came from this address. Please try again in ${seconds}s.`,
    retryAfterMs,
  });
}

function addressOf(headers: Headers): string | undefined {
  return headers.get(ADDRESS_HEADER) ?? undefined;
}
