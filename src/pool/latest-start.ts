import { idleTtftMs } from "../forecast/latency.ts";
import type { ReplicaLoad } from "../replicas/replica-load.ts";
import type { Replica } from "../replicas/replica.ts";
import { isOfUse } from "./fitness.ts";
import type { PoolRequest } from "./pool-request.ts";
import { elapsedMsOf } from "./pool-request.ts";

/** Widens a forecast to the bound that is promised. */
export type WidenTtft = (ttftMs: number, replica: Replica) => number;

/**
 * The last instant at which a request could begin on some replica, nothing else being there, and still
 * be in time by the bound that decides. `undefined` while no replica that it may use is ready.
 */
export function latestStartAtMs(
  request: PoolRequest,
  replicas: Iterable<Replica>,
  nowMs: number,
  widen: WidenTtft = (ttftMs) => ttftMs,
): number | undefined {
  const leftMs = -elapsedMsOf(request, nowMs);
  let latestAtMs: number | undefined;
  for (const replica of replicas) {
    if (!isOfUse(replica, request, nowMs)) continue;
    const load = replica.loadAt(nowMs);
    const slackMs = idleSlackMs(request, request.promptTokens, load, (ttftMs) =>
      widen(ttftMs, replica),
    );
    latestAtMs = Math.max(latestAtMs ?? -Infinity, nowMs + leftMs + slackMs);
  }
  return latestAtMs;
}

/**
 * Tells a bad moment from a request that has no good one. Every replica that has measured itself counts,
 * also one that drains, failed this request or is silent: only if none of them could ever do it is it
 * the prompt. By the least that the prompt can have, since this turns it away for good.
 */
export function isUnattainable(
  request: PoolRequest,
  replicas: Iterable<Replica>,
  nowMs: number,
): boolean {
  let isJudged = false;
  for (const replica of replicas) {
    if (replica.isRemoved || !replica.models.has(request.offer.replicaModelId, nowMs)) continue;
    if (replica.lastReport === undefined) return false;
    isJudged = true;
    const load = replica.loadAt(nowMs);
    if (idleSlackMs(request, request.promptTokensMin, load) >= 0) return false;
  }
  return isJudged;
}

/** How long the fastest replica would take to the first token of the least that the prompt can have. */
export function idleWaitMs(
  request: PoolRequest,
  replicas: Iterable<Replica>,
  nowMs: number,
): number {
  let leastMs = Infinity;
  for (const replica of replicas) {
    if (replica.isRemoved || replica.lastReport === undefined) continue;
    const work = { promptTokens: request.promptTokensMin, cachedTokens: 0, outputTokens: 1 };
    leastMs = Math.min(leastMs, idleTtftMs(work, replica.loadAt(nowMs)));
  }
  return leastMs;
}

/** What an idle replica would leave of a request's targets: of the first token's, and of the end's. */
function idleSlackMs(
  request: PoolRequest,
  promptTokens: number,
  load: ReplicaLoad,
  widen: (ttftMs: number) => number = (ttftMs) => ttftMs,
): number {
  const { limits, outputTokens } = request;
  const ttftMs = widen(idleTtftMs({ promptTokens, cachedTokens: 0, outputTokens }, load));
  const { step, speedRatio } = load;
  const tpotMs = speedRatio * (step.fixedMs + step.sequenceMs + step.tokenMs);
  const e2eMs = ttftMs + tpotMs * Math.max(0, outputTokens - 1);
  return Math.min(limits.ttftLimitMs - ttftMs, limits.e2eLimitMs - e2eMs);
}
