import type { SloTargets } from "../../src/slo/targets.ts";
import type { Random } from "../../src/base/random.ts";
import type { RequestId } from "../../src/protocol/ids.ts";

/** A request as a router sees it. */
export interface PolicyRequest {
  readonly requestId: RequestId;
  readonly tenantId: string;
  readonly promptTokens: number;
  /** Names its session, or where it has none what its prompt begins with. */
  readonly route: string;
  /** What its prompt begins with and shares with others, shortest first; `tokens` from the start. */
  readonly prefixes: readonly { readonly key: string; readonly tokens: number }[];
  /** What its tenant was promised; most policies do not look at it. */
  readonly targets: SloTargets;
  /** When it arrived at the gateway. */
  readonly arrivedAtMs: number;
}

/** A replica that is up, as such a router knows it. */
export interface PolicyReplica {
  /** Stays with the replica whoever else is up. */
  readonly replicaIndex: number;
  /** Requests that the router has sent there and that have not ended: never stale. */
  readonly outstanding: number;
  /** From the replica's metrics, as old as the last scrape. */
  readonly runningRequests: number;
  readonly queuedRequests: number;
  readonly usedKvRatio: number;
}

export type PolicyVerdict =
  | { readonly kind: "dispatch"; readonly replicaIndex: number }
  | { readonly kind: "reject" }
  /** It waits at the gateway until `next` names it. */
  | { readonly kind: "wait" };

/** One of those who wait, and where it goes. */
export interface PolicySend {
  readonly request: PolicyRequest;
  readonly replicaIndex: number;
}

/** How a request went that was dispatched. */
export interface PolicyEnding {
  /** It ended well and kept its targets. */
  readonly isGood: boolean;
  /** From the dispatch on; absent where there was no token, or no second one. */
  readonly firstTokenAfterMs: number | undefined;
  readonly tpotMs: number | undefined;
  readonly outputTokens: number;
}

/** When it is, and chance. */
export interface PolicyMoment {
  readonly nowMs: number;
  readonly random: Random;
}

/**
 * A published way to route or to limit requests, to compare ours with. Each is written as its source
 * says, with the source's constants, and is told all that the source would know, without delay.
 */
export interface Policy {
  /** Decides on a request that has arrived. No replica is up: rejected. */
  choose(
    request: PolicyRequest,
    replicas: readonly PolicyReplica[],
    moment: PolicyMoment,
  ): PolicyVerdict;
  /** Names one of those who wait, in the order in which they came, and where it goes; asked until it names none. */
  next?(
    waiting: Iterable<PolicyRequest>,
    replicas: readonly PolicyReplica[],
    moment: PolicyMoment,
  ): PolicySend | undefined;
  /** Is told once of each request that was dispatched. */
  ended?(request: PolicyRequest, ending: PolicyEnding): void;
}

export const REJECTED: PolicyVerdict = { kind: "reject" };
