import type { Random } from "../../src/base/random.ts";

/** A request as a router sees it that knows nothing of targets. */
export interface PolicyRequest {
  readonly requestId: string;
  readonly tenantId: string;
  readonly promptTokens: number;
  /** Names its session, or where it has none what its prompt begins with. */
  readonly route: string;
  /** What its prompt begins with and shares with others, shortest first; `tokens` from the start. */
  readonly prefixes: readonly { readonly key: string; readonly tokens: number }[];
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
  | { readonly kind: "reject" };

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
  /** Decides at once; a router of this kind keeps no request waiting. No replica is up: rejected. */
  choose(
    request: PolicyRequest,
    replicas: readonly PolicyReplica[],
    moment: PolicyMoment,
  ): PolicyVerdict;
  /** Is told once of each request that was dispatched. `isGood`: it ended well and kept its targets. */
  ended?(request: PolicyRequest, ending: { readonly isGood: boolean }): void;
}

export const REJECTED: PolicyVerdict = { kind: "reject" };
