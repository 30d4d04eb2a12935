import { assert } from "../src/base/assert.ts";
import type { Dispatch, Outcome, Rejection } from "../src/pool/offer.ts";
import type { LeaseId, ReplicaId, RequestId } from "../src/protocol/ids.ts";
import { judgeAttainment } from "../src/slo/attainment.ts";
import type { RequestEnding } from "../src/slo/timeline.ts";
import { TimelineRecorder } from "../src/slo/timeline.ts";
import type { RequestRecord } from "./request-record.ts";
import type { SimulatedTenant } from "./simulated-tenant.ts";
import type { ArrivalSpec } from "./workloads/arrival.ts";

/** One use of a replica by a call. */
export interface Attempt {
  /** The request's name at the replica. */
  readonly attemptId: string;
  readonly call: SimulatedCall;
  readonly leaseId: LeaseId;
  readonly dispatch: Dispatch;
  readonly beganAtMs: number;
  /** Whether it was begun beside another one that was late. */
  readonly isHedge: boolean;
  /** What the replica was given to say, so that nothing of it can be lost, doubled or mixed up. */
  readonly answerTokenIds: readonly number[];
  firstTokenAtMs: number | undefined;
  tokens: number;
}

/** A lease as a verdict brings it. */
export interface GivenLease {
  readonly leaseId: LeaseId;
  readonly dispatch: Dispatch;
}

export interface SimulatedCallOptions {
  readonly requestId: RequestId;
  readonly spec: ArrivalSpec;
  /** The arrival's place in its workload. */
  readonly index: number;
  readonly tryNumber: number;
  readonly tenant: SimulatedTenant;
  readonly arrivedAtMs: number;
  readonly onEnd: (record: RequestRecord) => void;
}

/** One request at the gateway, from its arrival to its one end. */
export class SimulatedCall {
  readonly options: SimulatedCallOptions;
  readonly recorder: TimelineRecorder;
  readonly failedReplicaIds: ReplicaId[] = [];
  /** The replicas in use: one, or two until the first token has come. */
  readonly attempts = new Set<Attempt>();
  dispatches = 0;
  /** As the replica says at the end of a whole answer. */
  cachedTokens: number | undefined;
  #isInProfile: boolean | undefined;
  #firstTokenAfterMs: number | undefined;
  #hasEnded = false;

  constructor(options: SimulatedCallOptions) {
    this.options = options;
    this.recorder = new TimelineRecorder({
      arrivedAtMs: options.arrivedAtMs,
      uploadMs: 0,
      isStreamed: options.tenant.isStreamed,
      targets: options.tenant.targets,
    });
  }

  get requestId(): RequestId {
    return this.options.requestId;
  }

  get hasEnded(): boolean {
    return this.#hasEnded;
  }

  /** Begins to use a replica. */
  begin(lease: GivenLease, answerTokenIds: readonly number[], nowMs: number): Attempt {
    const { leaseId, dispatch } = lease;
    const [other] = this.attempts;
    assert(!this.#hasEnded, "a call that has ended uses no replica");
    assert(this.attempts.size < 2, "a call uses two replicas at most");
    assert(other === undefined || other.tokens === 0, "nothing is asked twice that has begun");
    assert(
      other?.dispatch.replicaId !== dispatch.replicaId,
      "a call is sent to another replica beside one that is late",
    );
    this.dispatches += 1;
    this.#isInProfile = dispatch.isInProfile;
    this.recorder.queued(dispatch.queuedMs);
    if (dispatch.clampedOutputTokensMax !== undefined) this.recorder.degraded();
    const attempt: Attempt = {
      attemptId: `${this.requestId}.${this.dispatches}`,
      call: this,
      leaseId,
      dispatch,
      beganAtMs: nowMs,
      isHedge: other !== undefined,
      answerTokenIds,
      firstTokenAtMs: undefined,
      tokens: 0,
    };
    this.attempts.add(attempt);
    return attempt;
  }

  /** The answer's next token has come. */
  token(attempt: Attempt, tokenId: number, nowMs: number): void {
    assert(this.attempts.has(attempt), "a token comes only from a replica in use");
    assert(this.attempts.size === 1, "a token comes only from the one that is left");
    assert(tokenId === attempt.answerTokenIds[attempt.tokens], "tokens come in order and once");
    attempt.tokens += 1;
    if (attempt.firstTokenAtMs === undefined) {
      attempt.firstTokenAtMs = nowMs;
      this.#firstTokenAfterMs = nowMs - attempt.beganAtMs;
    }
    this.recorder.tokens(1, nowMs);
  }

  /** How far an attempt came, as far as its outcome tells. */
  progressOf({ firstTokenAtMs, beganAtMs, tokens }: Attempt): Partial<Outcome> {
    if (firstTokenAtMs === undefined) return {};
    const { lastTokenAtMs = firstTokenAtMs } = this.recorder.state;
    return {
      outputTokens: tokens,
      firstTokenAfterMs: firstTokenAtMs - beganAtMs,
      decodeMs: lastTokenAtMs - firstTokenAtMs,
    };
  }

  /** Ends the call, once. */
  end(ending: RequestEnding, nowMs: number, rejection?: Rejection): RequestRecord {
    assert(!this.#hasEnded, "every request ends exactly once");
    this.#hasEnded = true;
    const { spec, tryNumber, tenant, arrivedAtMs, onEnd } = this.options;
    const { promptTokens } = spec;
    this.recorder.end(ending, nowMs, { promptTokens });
    const { timeline } = this.recorder;
    const isAdmitted = this.dispatches > 0 && rejection === undefined;
    const record: RequestRecord = {
      spec,
      tryNumber,
      arrivedAtMs,
      endedAtMs: nowMs,
      verdict: rejection !== undefined ? "refused" : isAdmitted ? "admitted" : "unserved",
      isInProfile:
        rejection === undefined ? this.#isInProfile : rejection.code === "server_is_overloaded",
      rejection,
      timeline,
      attainment: judgeAttainment(timeline, tenant.targets),
      dispatches: this.dispatches,
      firstTokenAfterMs: this.#firstTokenAfterMs,
      cachedTokens: this.cachedTokens,
    };
    onEnd(record);
    return record;
  }
}
