import type { DisplacementState } from "../admission/displacement.ts";
import { emptyDisplacement } from "../admission/displacement.ts";
import type { HoldBackState } from "../admission/hold-back.ts";
import { HoldBack } from "../admission/hold-back.ts";
import type { RetryAfterState } from "../admission/retry-after.ts";
import { noPromises } from "../admission/retry-after.ts";
import type { WaitQueueState } from "../admission/wait-queue.ts";
import { emptyWaitQueue } from "../admission/wait-queue.ts";
import type { RandomState } from "../base/random.ts";
import type { CalibrationState } from "../forecast/calibration.ts";
import { Calibration } from "../forecast/calibration.ts";
import type { OutputLengthsState } from "../forecast/output-lengths.ts";
import type { ModelId, RequestId } from "../protocol/ids.ts";
import type { ReplicaSetState } from "../replicas/replica-set.ts";
import type { TurnsState } from "../routing/turns.ts";
import { noTurns } from "../routing/turns.ts";
import type { CostBucketState } from "../tenants/cost-bucket.ts";
import { CostBucket } from "../tenants/cost-bucket.ts";
import type { Capacity } from "./capacity.ts";
import type { FailingTenantsState } from "./failing-tenants.ts";
import type { HedgeBudgetState } from "./hedge-budget.ts";
import { HedgeBudget } from "./hedge-budget.ts";
import type { LeaseBookState } from "./lease-book.ts";
import type { PoolRequest } from "./pool-request.ts";
import type { PromptTotalsState } from "./prompt-totals.ts";
import type { PoolTotalsState } from "./pool-totals.ts";
import { noTotals } from "./pool-totals.ts";
import type { TenantBookState } from "./tenant-book.ts";
import type { TokenEstimateState } from "./token-estimate.ts";
import { TokenEstimate } from "./token-estimate.ts";

/** All that a pool remembers: copied, it is a snapshot that another pool goes on from. */
export interface PoolState {
  readonly random: RandomState;
  readonly replicas: ReplicaSetState;
  readonly leases: LeaseBookState;
  readonly tenants: TenantBookState;
  /** What all tenants together have taken of what they are guaranteed. */
  readonly guaranteed: CostBucketState;
  readonly failingTenants: FailingTenantsState;
  readonly queue: WaitQueueState;
  /** Those that the queue holds by name. */
  readonly waiting: Map<RequestId, PoolRequest>;
  readonly displacement: DisplacementState;
  readonly turns: TurnsState;
  readonly holdBack: HoldBackState;
  readonly retryAfter: RetryAfterState;
  readonly hedgeBudget: HedgeBudgetState;
  readonly calibration: CalibrationState;
  readonly outputLengths: OutputLengthsState;
  readonly tokenEstimate: TokenEstimateState;
  readonly counts: PoolCounts;
  readonly totals: PoolTotalsState;
  readonly promptTotals: PromptTotalsState;
  queueMax: number;
  /** True: nothing is taken in. */
  isClosed?: boolean;
  /** Requests that a model may have under way, of those models that have such a limit. */
  readonly modelLimits: Map<ModelId, number>;
  /** Of those that wait, in GPU-ms; costs are whole 1/1024 ms, so that the sum stays exact. */
  waitingCostMs: number;
  /** Until then a pool that has just begun knows too little. */
  readonly relearnUntilMs: number;
  wakeAtMs?: number;
  capacity?: Capacity & { readonly measuredAtMs: number };
  promisesWatchedAtMs?: number;
  costsRevisedAtMs?: number;
  /** The tightest TTFT target of those who are guaranteed something; absent: there is none. */
  guardedTtftMs?: number;
}

/** Verdicts of this life of the pool. */
interface PoolCounts {
  offered: number;
  dispatched: number;
  rejected: number;
  displaced: number;
  /** Second copies: no offers of their own, but dispatches. */
  hedged: number;
  /** Prompts that were sent to be computed for another replica: neither offers of their own. */
  split: number;
}

/** A pool that has heard of nothing yet. */
export function newPoolState(seed: number, relearnUntilMs: number): PoolState {
  return {
    random: { value: seed >>> 0 },
    replicas: new Map(),
    leases: new Map(),
    tenants: new Map(),
    guaranteed: new CostBucket().state,
    failingTenants: new Map(),
    queue: emptyWaitQueue(),
    waiting: new Map(),
    displacement: emptyDisplacement(),
    turns: noTurns(),
    holdBack: new HoldBack().state,
    retryAfter: noPromises(),
    hedgeBudget: new HedgeBudget().state,
    calibration: new Calibration().state,
    outputLengths: { byModel: new Map() },
    tokenEstimate: new TokenEstimate().state,
    counts: { offered: 0, dispatched: 0, rejected: 0, displaced: 0, hedged: 0, split: 0 },
    totals: noTotals(),
    promptTotals: new Map(),
    queueMax: 0,
    modelLimits: new Map(),
    waitingCostMs: 0,
    relearnUntilMs,
  };
}
