import type { ModelId } from "../protocol/ids.ts";
import { FAILED } from "../slo/attainment.ts";
import { isModelAbsent } from "./fitness.ts";
import { idleWaitMs } from "./latest-start.ts";
import type { Rejection } from "./offer.ts";
import type { PoolEffect } from "./pool-effect.ts";
import type { PoolParts } from "./pool-parts.ts";
import type { PoolRequest } from "./pool-request.ts";
import type { PoolState } from "./pool-state.ts";

/** Why a request is refused. */
export interface RefusalFacts {
  readonly reason: Rejection["reason"];
  readonly predictedWaitMs?: number | undefined;
  /** What the tenant's ladder asks instead. */
  readonly fallbackModelId?: ModelId;
}

/**
 * Refuses requests: whose fault it is, and when to come back. 429 says "you" to what is beyond a
 * guarantee, 503 says "us" to what is within it, and 400 that no moment would be better.
 */
export class Refuser {
  readonly #parts: PoolParts;
  readonly #state: PoolState;

  constructor(parts: PoolParts, state: PoolState) {
    this.#parts = parts;
    this.#state = state;
  }

  refuse(request: PoolRequest, facts: RefusalFacts, nowMs: number): PoolEffect {
    const { tenants } = this.#parts;
    const { offer, requestId, costMs } = request;
    const { tenantId } = offer;
    // Before what was claimed is given back: it is what the next request can be sure of.
    const rejection = this.#toRejection(request, facts, nowMs);
    this.#state.counts.rejected += 1;
    this.#parts.totals.rejected(offer, rejection.reason);
    // What we could not serve was within the guarantee all the same, and stays counted there: otherwise
    // a tenant that offers too much would be within it with all that is refused.
    const isTakenBack = facts.reason === "withdrawn" || facts.reason === "unattainable";
    if (isTakenBack && request.isInProfile && this.#parts.mechanisms.guarantees) {
      tenants.correct(tenantId, -costMs, this.#parts.rateMsPerMs(nowMs), nowMs);
    }
    this.#count(request, facts, nowMs);
    tenants.leaves(tenantId);
    return { kind: "reject", requestId, rejection };
  }

  /**
   * Who gave up was not refused, and who was admitted before has failed by now. Who goes on to another model
   * gets what its tenant wants instead of a refusal, and who asked for more than was promised was not promised it.
   */
  #count(
    { offer, isInProfile, costMs }: PoolRequest,
    { reason, fallbackModelId }: RefusalFacts,
    nowMs: number,
  ) {
    if (reason === "withdrawn" || reason === "unattainable") return;
    const { tenants, holdBack } = this.#parts;
    // Where nobody is served there is no room that excess could have taken.
    const isWish = offer.promised !== undefined;
    if (isInProfile && !isWish && !isNobodyServed(reason)) holdBack.refused(nowMs);
    if (fallbackModelId !== undefined) return;
    if (!offer.isRetry) {
      if (isInProfile && isWish) return;
      tenants.count(offer.tenantId, { kind: "rejected", isInProfile }, nowMs);
      return;
    }
    tenants.count(offer.tenantId, { kind: "ended", attainment: FAILED, costMs }, nowMs);
  }

  #toRejection(request: PoolRequest, facts: RefusalFacts, nowMs: number): Rejection {
    const { reason, predictedWaitMs, fallbackModelId } = facts;
    const said = {
      reason,
      predictedWaitMs,
      promptTokens: request.promptTokensMin,
      ...(fallbackModelId !== undefined && { fallbackModelId }),
    };
    // Nobody hears it, so nobody is given an instant to come back at.
    if (reason === "withdrawn") {
      return { ...said, code: "server_is_overloaded", retryAfterMs: undefined };
    }
    if (reason === "unattainable") {
      return {
        ...said,
        predictedWaitMs: idleWaitMs(request, this.#parts.replicas, nowMs),
        code: "slo_unattainable",
        retryAfterMs: undefined,
      };
    }
    if (reason === "no-replica" && isModelAbsent(request, this.#parts.replicas, nowMs)) {
      // It may be loaded somewhere by now.
      for (const { models } of this.#parts.replicas) models.want();
      return { ...said, code: "model_not_found", retryAfterMs: undefined };
    }
    const retryAfterMs = this.#retryAfterMs(request, nowMs);
    // Nobody exceeded anything where there is nothing to have a share of.
    const isOurs = request.isInProfile || isNobodyServed(reason);
    return isOurs
      ? { ...said, code: "server_is_overloaded", retryAfterMs }
      : { ...said, code: "rate_limit_exceeded", reason: excessReason(reason), retryAfterMs };
  }

  #retryAfterMs({ offer, costMs, isInProfile }: PoolRequest, nowMs: number): number {
    const { tenants, retryAfter, random } = this.#parts;
    const { tenantId, share } = offer;
    const rateMsPerMs = this.#parts.rateMsPerMs(nowMs);
    const drainMs = rateMsPerMs > 0 ? this.#state.waitingCostMs / rateMsPerMs : 0;
    return retryAfter.promiseMs(
      {
        tenantId,
        costMs,
        isInProfile,
        inProfileAfterMs: tenants.inProfileAfterMs(tenantId, costMs, rateMsPerMs, nowMs),
        backlogDrainsAfterMs: drainMs,
        shareMsPerMs: share.guaranteedRatio * rateMsPerMs,
        poolMsPerMs: rateMsPerMs,
      },
      random,
      nowMs,
    );
  }
}

function isNobodyServed(reason: Rejection["reason"]): boolean {
  return reason === "no-replica" || reason === "closed";
}

function excessReason(reason: Rejection["reason"]): Rejection["reason"] {
  return reason === "infeasible" || reason === "deadline-passed" ? "out-of-profile" : reason;
}
