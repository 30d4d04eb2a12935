import { assert } from "../../src/base/assert.ts";
import { ttftLimitMs } from "../../src/slo/deadlines.ts";
import { LeastOutstanding } from "./load-balancers.ts";
import type {
  Policy,
  PolicyEnding,
  PolicyMoment,
  PolicyReplica,
  PolicyRequest,
  PolicyVerdict,
} from "./policy.ts";
import { REJECTED } from "./policy.ts";
import { RecursiveLeastSquares } from "./recursive-least-squares.ts";

export interface PredictedLatencyOptions {
  /** `sloBufferFactor`: targets are taken to be so much of what they are. */
  readonly bufferRatio: number;
}

/** Until so many answers were seen requests go by least outstanding. */
const SAMPLES_MIN = 100;
/** Predictions are of the 90th percentile, as there. */
const QUANTILE = 0.9;
const QUANTILE_STEP = 0.02;
/** Of two headrooms TTFT's counts for 0.8. */
const TTFT_WEIGHT = 0.8;
/** So often a request goes where no target would hold, or to one more that would. */
const EXPLORATION_RATIO = 0.01;

/** What was predicted of a request where it went. */
interface Prediction {
  readonly ttft: readonly number[];
  readonly tpot: readonly number[];
}

/**
 * llm-d's predicted-latency routing with its check of both targets as admission: of the replicas where TTFT
 * and TPOT are predicted to hold the one with the least headroom gets the request, so that large ones still
 * find room; where there is none, and no replica is idle, it is shed. There a gradient-boosted tree is trained
 * beside the router on the same features; here a linear model learns from every answer, and its 90th
 * percentile by the pinball rule. It knows no tenants: all are sheddable alike.
 */
export class PredictedLatency implements Policy {
  readonly #bufferRatio: number;
  readonly #balancer = new LeastOutstanding();
  readonly #ttft = new RecursiveLeastSquares(5);
  readonly #tpot = new RecursiveLeastSquares(3);
  readonly #margins = { ttft: 1, tpot: 1 };
  readonly #predictions = new Map<string, Prediction>();

  constructor({ bufferRatio }: PredictedLatencyOptions = { bufferRatio: 1 }) {
    this.#bufferRatio = bufferRatio;
  }

  choose(
    request: PolicyRequest,
    replicas: readonly PolicyReplica[],
    moment: PolicyMoment,
  ): PolicyVerdict {
    if (replicas.length === 0) return REJECTED;
    if (this.#ttft.samples < SAMPLES_MIN || this.#tpot.samples < SAMPLES_MIN) {
      return this.#sendTo(request, balanced(this.#balancer, request, { replicas, moment }));
    }
    const judged = replicas.map((replica) => this.#judge(request, replica, moment.nowMs));
    const valid = judged.filter(({ isValid }) => isValid);
    if (valid.length > 0) {
      const explores = moment.random() < EXPLORATION_RATIO;
      const chosen = explores ? valid[Math.floor(moment.random() * valid.length)] : least(valid);
      assert(chosen !== undefined, "one of those that are valid is chosen");
      return this.#sendTo(request, chosen.replica);
    }
    const idle = replicas.find(({ outstanding }) => outstanding === 0);
    if (idle !== undefined) return this.#sendTo(request, idle);
    if (moment.random() >= EXPLORATION_RATIO) return REJECTED;
    const nearest = judged.reduce((a, b) => (b.headroom > a.headroom ? b : a));
    return this.#sendTo(request, nearest.replica);
  }

  ended(request: PolicyRequest, { firstTokenAfterMs, tpotMs }: PolicyEnding): void {
    const prediction = this.#predictions.get(request.requestId);
    this.#predictions.delete(request.requestId);
    if (prediction === undefined) return;
    if (firstTokenAfterMs !== undefined) {
      this.#adjust("ttft", firstTokenAfterMs, this.#ttft.predict(prediction.ttft));
      this.#ttft.learn(prediction.ttft, firstTokenAfterMs);
    }
    if (tpotMs !== undefined) {
      this.#adjust("tpot", tpotMs, this.#tpot.predict(prediction.tpot));
      this.#tpot.learn(prediction.tpot, tpotMs);
    }
  }

  /** Moves the factor between mean and percentile by what was seen. */
  #adjust(metric: "ttft" | "tpot", seenMs: number, meanMs: number): void {
    const isAbove = seenMs > this.#margins[metric] * Math.max(1, meanMs);
    this.#margins[metric] *= Math.exp(QUANTILE_STEP * (isAbove ? QUANTILE : QUANTILE - 1));
    this.#margins[metric] = Math.min(5, Math.max(0.5, this.#margins[metric]));
  }

  #judge(request: PolicyRequest, replica: PolicyReplica, nowMs: number) {
    const { targets, promptTokens, arrivedAtMs } = request;
    const { ttft, tpot } = featuresOf(request, replica);
    const waitedMs = nowMs - arrivedAtMs;
    const ttftMs = this.#margins.ttft * Math.max(0, this.#ttft.predict(ttft));
    const tpotMs = this.#margins.tpot * Math.max(0, this.#tpot.predict(tpot));
    const ttftLeft = this.#bufferRatio * ttftLimitMs(targets, promptTokens) - waitedMs - ttftMs;
    const tpotLeft = this.#bufferRatio * (targets.tpot?.limitMs ?? Infinity) - tpotMs;
    const isValid = ttftLeft >= 0 && tpotLeft >= 0;
    return { replica, isValid, headroom: headroomOf(ttftLeft, tpotLeft) };
  }

  #sendTo(request: PolicyRequest, replica: PolicyReplica): PolicyVerdict {
    this.#predictions.set(request.requestId, featuresOf(request, replica));
    return { kind: "dispatch", replicaIndex: replica.replicaIndex };
  }
}

function least<Judged extends { readonly headroom: number }>(judged: readonly Judged[]): Judged {
  return judged.reduce((a, b) => (b.headroom < a.headroom ? b : a));
}

/** What is not promised leaves no headroom to weigh. */
function headroomOf(ttftLeft: number, tpotLeft: number): number {
  const parts = [TTFT_WEIGHT * ttftLeft, (1 - TTFT_WEIGHT) * tpotLeft];
  return parts.filter(Number.isFinite).reduce((sum, part) => sum + part, 0);
}

/** What llm-d's predictor is shown: length, what waits and runs there by scrape and ledger, and KV in use. */
function featuresOf({ promptTokens }: PolicyRequest, replica: PolicyReplica): Prediction {
  const { outstanding, queuedRequests, runningRequests, usedKvRatio } = replica;
  const unseen = Math.max(0, outstanding - queuedRequests - runningRequests);
  return {
    ttft: [1, promptTokens / 1000, queuedRequests + unseen, outstanding / 10, usedKvRatio],
    tpot: [1, outstanding / 10, usedKvRatio],
  };
}

function balanced(
  balancer: Policy,
  request: PolicyRequest,
  among: { readonly replicas: readonly PolicyReplica[]; readonly moment: PolicyMoment },
): PolicyReplica {
  const verdict = balancer.choose(request, among.replicas, among.moment);
  assert(verdict.kind === "dispatch", "a balancer chooses one of the replicas that are up");
  const found = among.replicas.find(({ replicaIndex }) => replicaIndex === verdict.replicaIndex);
  assert(found !== undefined, "a balancer chooses one of those that it was shown");
  return found;
}
