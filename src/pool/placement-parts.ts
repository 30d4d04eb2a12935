import type { HoldBack } from "../admission/hold-back.ts";
import type { Random } from "../base/random.ts";
import type { Calibration } from "../forecast/calibration.ts";
import type { Replica } from "../replicas/replica.ts";
import type { Turns } from "../routing/turns.ts";
import type { Mechanisms } from "./mechanisms.ts";
import type { PoolRequest } from "./pool-request.ts";
import type { ReplicaWaits } from "./replica-waits.ts";

/** What a placement draws on. */
export interface PlacementParts {
  /** All of the pool. */
  readonly replicas: Iterable<Replica>;
  readonly calibration: Calibration;
  readonly waits: ReplicaWaits;
  readonly turns: Turns;
  readonly holdBack: HoldBack;
  /** By how much of its targets a request beyond its guarantee leaves more room than others do. */
  courtesyRatio(request: PoolRequest, nowMs: number): number;
  /** The tightest TTFT target of those who are guaranteed something and have been here of late. */
  guardedTtftMs(): number;
  readonly mechanisms: Mechanisms;
  readonly random: Random;
}

/** When a request is placed, and beside whom. */
export interface PlacementMoment {
  readonly nowMs: number;
  /** Nobody waits whom it could get in the way of. */
  readonly isQueueEmpty: boolean;
}
