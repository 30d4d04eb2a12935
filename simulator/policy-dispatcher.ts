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

/** Lets a published policy decide in the place of the pool. It answers at once, and nobody waits. */
export class PolicyDispatcher implements Dispatcher {
  readonly #policy: Policy;
  readonly #world: World;
  readonly #listener: VerdictListener;
  readonly #random: Random;
  readonly #replicas = new Map<ReplicaId, KnownReplica>();
  readonly #leases = new Map<LeaseId, Lease>();
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
    if (known !== undefined) known.isConnected = true;
    else {
      const replicaIndex = this.#replicas.size;
      const fresh = { replicaId, replicaIndex, isConnected: true, outstanding: 0 };
      this.#replicas.set(replicaId, { ...fresh, report: undefined });
    }
  }

  reported(replicaId: ReplicaId, report: ReplicaReport): void {
    const replica = this.#replicas.get(replicaId);
    if (replica !== undefined) replica.report = report;
  }

  disconnected(replicaId: ReplicaId): void {
    const replica = this.#replicas.get(replicaId);
    if (replica !== undefined) replica.isConnected = false;
  }

  offer(offer: Offer): void {
    const open = [...this.#replicas.values()].filter(
      ({ isConnected, replicaId }) => isConnected && !offer.excludedReplicaIds.includes(replicaId),
    );
    const request = policyRequestOf(offer);
    const moment = { nowMs: this.#world.nowMs, random: this.#random };
    const verdict = this.#policy.choose(request, open.map(toPolicyReplica), moment);
    if (verdict.kind === "reject") {
      this.#listener.rejected(offer.requestId, REJECTION);
      return;
    }
    const replica = open.find(({ replicaIndex }) => replicaIndex === verdict.replicaIndex);
    assert(replica !== undefined, "a policy chooses among the replicas that it was shown");
    this.#dispatch(offer.requestId, { request, replica });
  }

  /** Nobody waits, so there is nothing to withdraw. */
  withdraw(): void {}

  /** That a first token has come changes nothing for a policy. */
  started(): void {}

  settle(leaseId: LeaseId, outcome: Outcome): void {
    const lease = this.#leases.get(leaseId);
    if (lease === undefined) return;
    this.#leases.delete(leaseId);
    lease.replica.outstanding -= 1;
    const isGood = outcome.kind === "completed" && outcome.attainment?.kind === "good";
    this.#policy.ended?.(lease.request, { isGood });
  }

  checkInvariants(): void {
    let outstanding = 0;
    for (const replica of this.#replicas.values()) outstanding += replica.outstanding;
    assert(outstanding === this.#leases.size, "what is outstanding has a lease");
  }

  #dispatch(requestId: RequestId, lease: Lease): void {
    const { replicaId } = lease.replica;
    this.#dispatched += 1;
    lease.replica.outstanding += 1;
    const leaseId = LeaseId.parse(`policy.${this.#dispatched}`);
    this.#leases.set(leaseId, lease);
    const dispatch: Dispatch = {
      replicaId,
      endpointUrl: replicaId,
      dispatch: leaseId,
      queuedMs: 0,
      firstTokenBudgetMs: Infinity,
      forecast: { ttftMs: Infinity, tpotMs: Infinity },
      isInProfile: true,
    };
    this.#listener.dispatched(requestId, leaseId, dispatch);
  }
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
