import { AimdLimit } from "./aimd-limit.ts";
import { CacheAware } from "./cache-aware.ts";
import { ConcurrencyLimit } from "./concurrency-limit.ts";
import { DeadlineOrder } from "./deadline-order.ts";
import { GatewayQueue } from "./gateway-queue.ts";
import { LeastOutstanding, PowerOfTwoChoices, RoundRobin } from "./load-balancers.ts";
import { MostViolatedOrder } from "./most-violated-order.ts";
import type { Policy } from "./policy.ts";
import { PredictedLatency } from "./predicted-latency.ts";
import { RateBucket } from "./rate-bucket.ts";
import { SaturationShed } from "./saturation-shed.ts";
import { SessionSticky } from "./session-sticky.ts";
import { WeightedScorers } from "./weighted-scorers.ts";

/** What some of the policies must be told of the pool and its tenants. */
export interface PolicySettings {
  /** By tenant, what its share of the pool would carry of its requests. */
  readonly requestsPerMs: ReadonlyMap<string, number>;
  /** Requests that one replica may have. */
  readonly outstandingMax: number;
  /** The part of each target that is planned with. */
  readonly bufferRatio?: number;
  /** How much of its rate a tenant may save up. */
  readonly burstMs?: number;
  /** Thresholds of saturation, as a part of the usual ones. */
  readonly thresholdRatio?: number;
  /** Requests that the whole pool may have before anything was learned. */
  readonly initialLimit: number;
}

/** Those that have to be told nothing, by the name that a command line gives them. */
export const UNTOLD_POLICIES = {
  "round-robin": () => new RoundRobin(),
  "least-outstanding": () => new LeastOutstanding(),
  "two-choices": () => new PowerOfTwoChoices(),
  "cache-aware": () => new CacheAware(),
  "session-sticky": () => new SessionSticky(),
  "weighted-scorers": () => new WeightedScorers(),
} as const satisfies Record<string, () => Policy>;

/** The policies that ours is compared with, by the name that a command line gives them. */
export const REFERENCE_POLICIES = {
  ...UNTOLD_POLICIES,
  "concurrency-limit": (settings) => new ConcurrencyLimit(settings),
  "rate-bucket": (settings) => new RateBucket(settings),
  "aimd-limit": (settings) => new AimdLimit(settings),
  "saturation-shed": ({ thresholdRatio = 1 }) => new SaturationShed(thresholdRatio),
  "predicted-latency": ({ bufferRatio = 1 }) => new PredictedLatency({ bufferRatio }),
  "deadline-queue": (settings) => new GatewayQueue(new DeadlineOrder(), settings),
  "most-violated-first": (settings) => new GatewayQueue(new MostViolatedOrder(), settings),
} as const satisfies Record<string, (settings: PolicySettings) => Policy>;

export type PolicyName = keyof typeof REFERENCE_POLICIES;
