import type { Replica } from "../replicas/replica.ts";
import { isFit } from "./fit-replica.ts";
import type { PoolRequest } from "./pool-request.ts";
import { elapsedMsOf, targetMsOf } from "./pool-request.ts";

/** What is saved of a prompt has to be so much of it, and so many tokens, to be worth a wait. */
const WORTHWHILE = { ratio: 0.1, tokens: 128 } as const;
/** What of its time a request may wait for its prefix; with the rest it is in time on any replica. */
const WAITED_RATIO_MAX = 0.4;
/** Longer it does not wait, however patient it is: the replica that it waits for may be full for long. */
const WAITED_MS_MAX = 2_000;

/** Tokens of a prompt that a replica is believed to hold in its KV. */
export function cachedTokensOn(replica: Replica, { offer, promptTokens }: PoolRequest): number {
  const hitRatio = replica.prefixes.hitBytes(offer.prefixes) / Math.max(1, offer.promptBytes);
  return Math.floor(Math.min(1, hitRatio) * promptTokens);
}

/** Notes how little is left to compute where most of a prompt is cached, whether or not there is room. */
export function noteLeastWork(
  request: PoolRequest,
  replicas: Iterable<Replica>,
  nowMs: number,
): void {
  let leastTokens = Infinity;
  for (const replica of replicas) {
    if (!isFit(replica, request, nowMs, 1)) continue;
    leastTokens = Math.min(leastTokens, request.promptTokens - cachedTokensOn(replica, request));
  }
  request.leastUncachedTokens = leastTokens;
}

/**
 * Leaves replicas to others where a request would have more to compute than on another one that has no room
 * just now (delay scheduling, Zaharia et al., EuroSys 2010).
 *
 * Where many wait, each takes whatever comes free, and prefixes are found by chance. But then GPU time is what
 * all of them lack, and to compute what another replica holds takes it from everybody. Who waits a little
 * loses nothing that it was promised, and somebody else uses the room.
 */
export function waitForPrefix(
  options: readonly { readonly uncachedTokens: number; isFeasible: boolean }[],
  request: PoolRequest,
  nowMs: number,
): void {
  const waitedMsMax = Math.min(WAITED_MS_MAX, WAITED_RATIO_MAX * targetMsOf(request));
  if (elapsedMsOf(request, nowMs) >= waitedMsMax) return;
  const { leastUncachedTokens = Infinity } = request;
  for (const option of options) {
    const savedTokens = option.uncachedTokens - leastUncachedTokens;
    const worthTokens = Math.max(WORTHWHILE.tokens, WORTHWHILE.ratio * option.uncachedTokens);
    option.isFeasible &&= savedTokens <= worthTokens;
  }
}
