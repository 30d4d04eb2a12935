import type { RateStandings } from "../src/tenants/rate-limits.ts";

const WINDOW_SECONDS = 60;

/**
 * Says how a tenant's limits stood when its request was decided: in OpenAI's headers, and requests
 * also in those of draft-ietf-httpapi-ratelimit-headers-10, which knows no tokens.
 */
export function rateHeaders({ requests, tokens }: RateStandings): Record<string, string> {
  return {
    ...(requests && {
      "x-ratelimit-limit-requests": String(requests.limit),
      "x-ratelimit-remaining-requests": String(requests.remaining),
      "x-ratelimit-reset-requests": toGoDuration(requests.resetMs),
      "ratelimit-policy": `"requests";q=${requests.limit};w=${WINDOW_SECONDS}`,
      ratelimit: `"requests";r=${requests.remaining};t=${Math.ceil(requests.nextMs / 1000)}`,
    }),
    ...(tokens && {
      "x-ratelimit-limit-tokens": String(tokens.limit),
      "x-ratelimit-remaining-tokens": String(tokens.remaining),
      "x-ratelimit-reset-tokens": toGoDuration(tokens.resetMs),
    }),
  };
}

/** Writes a duration as Go does, which is what clients of OpenAI read: `20ms`, `1.5s`, `1m0s`. */
function toGoDuration(durationMs: number): string {
  if (durationMs === 0) return "0s";
  if (durationMs < 1000) return `${durationMs}ms`;
  const minutes = Math.floor(durationMs / 60_000);
  const seconds = `${(durationMs % 60_000) / 1000}s`;
  return minutes === 0 ? seconds : `${minutes}m${seconds}`;
}
