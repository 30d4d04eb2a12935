import type { Levels } from "./levels.ts";
import { limitLevelsOf } from "./levels.ts";
import type { RateStanding } from "./rate-window.ts";
import type { LimitsMax, LimitsVerdict } from "./tenant-limits.ts";

/** When it makes sense to ask again where only other shards have something left. */
const OTHERS_RENEWED_MS = 2_000;
/** A minute that seems used up here need not be: what others hold ahead comes back in a few seconds. */
const REFUSED_MS_MAX = 5_000;

/** A verdict by one shard's part of the limits, in terms of the whole ones. `free` is nobody's. */
export function ofWhole(
  verdict: LimitsVerdict,
  tenant: { readonly limitsMax: LimitsMax; readonly need: Levels; readonly free: Levels },
): LimitsVerdict {
  const { need, free } = tenant;
  const limits = limitLevelsOf(tenant.limitsMax);
  const { requests, tokens } = verdict.standings;
  const standings = {
    ...(requests && { requests: ofLimit(requests, limits.requests, free.requests) }),
    ...(tokens && { tokens: ofLimit(tokens, limits.tokens, free.tokens) }),
  };
  if (verdict.kind === "granted") return { ...verdict, standings };
  const isOfMonth = verdict.limit === "month" || verdict.limit === "spend";
  const isTooLarge = need.tokens > limits.tokens;
  if (isOfMonth || isTooLarge) return { ...verdict, standings };
  const isOfOthers = verdict.retryAfterMs === Infinity;
  const retryAfterMs = isOfOthers
    ? OTHERS_RENEWED_MS
    : Math.min(verdict.retryAfterMs, REFUSED_MS_MAX);
  return { ...verdict, standings, retryAfterMs };
}

function ofLimit(standing: RateStanding, limit: number, free: number): RateStanding {
  return { ...standing, limit, remaining: Math.min(limit, standing.remaining + free) };
}
