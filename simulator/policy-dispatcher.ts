import { assert } from "../src/base/assert.ts";
import type { Random } from "../src/base/random.ts";
import type { Dispatch, Offer, Outcome, Rejection } from "../src/pool/offer.ts";
import type { ReplicaHello, ReplicaReport } from "../src/protocol/engine-api.ts";
import { LeaseId, ReplicaId } from "../src/protocol/ids.ts";
import type { RequestId } from "../src/protocol/ids.ts";
import type { Dispatcher, VerdictListener } from "./dispatcher.ts";
import type { Policy, PolicyReplica, PolicyRequest } from "./policies/policy.ts";
import { policyRequestOf } from "./policies/policy-request-of.ts";
import type { World } from "./world.ts";

/** A replica as the policy is told of it. */
interface KnownReplica {
  readonly replicaId: ReplicaId;
  readonly replicaIndex: number;
  isConnected: boolean;
  outstanding: number;
  report: ReplicaReport | undefined;
}

interface Lease {
  readonly request: PolicyRequest;
  readonly replica: KnownReplica;
}

/** A policy promises nothing, and says no more of a rejection than that there is one. */
const REJECTION: Rejection = {
  code: "server_is_overloaded",
  reason: "infeasible",
  retryAfterMs: 1_000,
  predictedWaitMs: undefined,
  promptTokens: undefined,
};

/** More do not wait: the pool's own bound. */
const WAITING_MAX = 10_000;

/** Lets a published policy decide in the place of the pool. */
export class PolicyDispatcher implements Dispatcher {
  readonly #policy: Policy;
  readonly #world: World;
  readonly #listener: VerdictListener;
  readonly #random: Random;
  readonly #replicas = new Map<ReplicaId, KnownReplica>();
  readonly #leases = new Map<LeaseId, Lease>();
  /** Who waits until the policy names it, in the order in which they came. */
  readonly #waiting = new Map<RequestId, PolicyRequest>();
  #dispatched = 0;

  constructor(policy: Policy, world: World, listener: VerdictListener) {
    this.#policy = policy;
    this.#world = world;
    this.#listener = listener;
    this.#random = world.randomFor("policy");
  }

  connected(hello: ReplicaHello): void {
    const replicaId = ReplicaId.parse(hello.endpointUrl);
    const known = this.#replicas.get(replicaId);
    if (known !== undefined) {
      known.isConnected = true;
      known.report = undefined;
    } else {
      const replicaIndex = this.#replicas.size;
      const fresh = { replicaId, replicaIndex, isConnected: true, outstanding: 0 };
      this.#replicas.set(replicaId, { ...fresh, report: undefined });
    }
  }

  reported(replicaId: ReplicaId, report: ReplicaReport): void {
    const replica = this.#replicas.get(replicaId);
    // One that has overtaken this one is newer.
    if (replica === undefined || report.sequence <= (replica.report?.sequence ?? 0)) return;
    replica.report = report;
    this.#attend();
  }

  disconnected(replicaId: ReplicaId): void {
    const replica = this.#replicas.get(replicaId);
    if (replica !== undefined) replica.isConnected = false;
  }

  offer(offer: Offer): void {
    const open = this.#openTo(offer.excludedReplicaIds);
    const request = policyRequestOf(offer, this.#world.nowMs);
    const verdict = this.#policy.choose(request, open.map(toPolicyReplica), this.#moment);
    if (verdict.kind === "wait" && this.#waiting.size < WAITING_MAX) {
      this.#waiting.set(offer.requestId, request);
      this.#attend();
    } else if (verdict.kind === "dispatch") {
      this.#dispatch(request, chosenOf(open, verdict.replicaIndex));
    } else {
      this.#listener.rejected(offer.requestId, REJECTION);
    }
  }

  withdraw(requestId: RequestId): void {
    this.#waiting.delete(requestId);
  }

  /** That a first token has come changes nothing for a policy. */
  started(): void {}

  settle(leaseId: LeaseId, outcome: Outcome): void {
    const lease = this.#leases.get(leaseId);
    if (lease === undefined) return;
    this.#leases.delete(leaseId);
    lease.replica.outstanding -= 1;
    const { firstTokenAfterMs, decodeMs, outputTokens = 0 } = outcome;
    const hasGaps = decodeMs !== undefined && outputTokens > 1;
    this.#policy.ended?.(lease.request, {
      isGood: outcome.kind === "completed" && outcome.attainment?.kind === "good",
      firstTokenAfterMs,
      tpotMs: hasGaps ? decodeMs / (outputTokens - 1) : undefined,
      outputTokens,
    });
    this.#attend();
  }

  checkInvariants(): void {
    let outstanding = 0;
    for (const replica of this.#replicas.values()) outstanding += replica.outstanding;
    assert(outstanding === this.#leases.size, "what is outstanding has a lease");
    assert(this.#waiting.size <= WAITING_MAX, "those who wait are within their bound");
  }

  get #moment() {
    return { nowMs: this.#world.nowMs, random: this.#random };
  }

  #openTo(excludedReplicaIds: readonly ReplicaId[]): KnownReplica[] {
    return [...this.#replicas.values()].filter(
      ({ isConnected, replicaId }) => isConnected && !excludedReplicaIds.includes(replicaId),
    );
  }

  /** Lets the policy name who of those that wait goes now. */
  #attend(): void {
    while (this.#waiting.size > 0 && this.#policy.next !== undefined) {
      const open = this.#openTo([]);
      const replicas = open.map(toPolicyReplica);
      const next = this.#policy.next(this.#waiting.values(), replicas, this.#moment);
      if (next === undefined) return;
      const isOneOfThem = this.#waiting.delete(next.request.requestId);
      assert(isOneOfThem, "a policy names one of those who wait");
      this.#dispatch(next.request, chosenOf(open, next.replicaIndex));
    }
  }

  #dispatch(request: PolicyRequest, replica: KnownReplica): void {
    const { replicaId } = replica;
    this.#dispatched += 1;
    replica.outstanding += 1;
    const leaseId = LeaseId.parse(`policy.${this.#dispatched}`);
    this.#leases.set(leaseId, { request, replica });
    const dispatch: Dispatch = {
      replicaId,
      endpointUrl: replicaId,
      dispatch: leaseId,
      queuedMs: Math.max(0, this.#world.nowMs - request.arrivedAtMs),
      firstTokenBudgetMs: Infinity,
      forecast: { ttftMs: Infinity, tpotMs: Infinity },
      isInProfile: true,
    };
    this.#listener.dispatched(request.requestId, leaseId, dispatch);
  }
}

function chosenOf(open: readonly KnownReplica[], replicaIndex: number): KnownReplica {
  const replica = open.find((each) => each.replicaIndex === replicaIndex);
  assert(replica !== undefined, "a policy chooses among the replicas that it was shown");
  return replica;
}

function toPolicyReplica({ replicaIndex, outstanding, report }: KnownReplica): PolicyReplica {
  return {
    replicaIndex,
    outstanding,
    runningRequests: report?.runningRequests ?? 0,
    queuedRequests: report?.queuedRequests ?? 0,
    usedKvRatio: report === undefined ? 0 : report.usedBlocks / report.blockCount,
  };
}
