import { isUnattainable, latestStartAtMs } from "./latest-start.ts";
import type { PoolParts } from "./pool-parts.ts";
import type { PoolRequest } from "./pool-request.ts";
import { elapsedMsOf } from "./pool-request.ts";
import type { PoolState } from "./pool-state.ts";

/** Until when a request may wait, or why it cannot. */
export type WaitLimit =
  | { readonly kind: "until"; readonly dropAtMs: number }
  | { readonly kind: "cannot"; readonly reason: "no-replica" | "infeasible" };

/** Knows for how long waiting could still help a request, and whether any moment could. */
export class Patience {
  readonly #parts: PoolParts;
  readonly #state: PoolState;

  constructor(parts: PoolParts, state: PoolState) {
    this.#parts = parts;
    this.#state = state;
  }

  /** Until when a request may wait of which at most so much of the target may be spent by waiting. */
  limitOf(request: PoolRequest, elapsedMsMax: number, nowMs: number): WaitLimit {
    const { mechanisms, placement, replicas } = this.#parts;
    const startAtMs = this.#latestStartAtMs(request, nowMs);
    if (startAtMs === undefined) return { kind: "cannot", reason: "no-replica" };
    const spentAtMs = mechanisms.drop
      ? nowMs + elapsedMsMax - elapsedMsOf(request, nowMs)
      : startAtMs;
    const dropAtMs = Math.min(startAtMs, spentAtMs);
    if (dropAtMs <= nowMs || !mechanisms.queue) return { kind: "cannot", reason: "infeasible" };
    if (mechanisms.drop && !placement.couldEverTake(request, replicas, nowMs)) {
      return { kind: "cannot", reason: "infeasible" };
    }
    return { kind: "until", dropAtMs };
  }

  /** Why a request that is refused would be at any other moment as well, as things stand. */
  whyNever(request: PoolRequest, nowMs: number): "no-replica" | "unattainable" | undefined {
    const { replicas } = this.#parts;
    if (latestStartAtMs(request, replicas, nowMs) === undefined) return "no-replica";
    return isUnattainable(request, replicas, nowMs) ? "unattainable" : undefined;
  }

  /** The last instant at which the request could begin and be in time; `undefined`: nowhere, ever. */
  #latestStartAtMs(request: PoolRequest, nowMs: number): number | undefined {
    const { mechanisms, limits, placement, replicas } = this.#parts;
    const { relearnUntilMs } = this.#state;
    const startAtMs = latestStartAtMs(request, replicas, nowMs, (ttftMs, replica) =>
      placement.idleTtftBoundMs(request, replica, ttftMs, nowMs),
    );
    if (startAtMs !== undefined) {
      return mechanisms.drop ? startAtMs : request.offeredAtMs + limits.firstTokenMsMax;
    }
    const { excludedReplicaIds } = request.offer;
    const isExpected = [...replicas].some(
      (replica) => replica.isExpected(nowMs) && !excludedReplicaIds.includes(replica.replicaId),
    );
    return isExpected && relearnUntilMs > nowMs ? relearnUntilMs : undefined;
  }
}
