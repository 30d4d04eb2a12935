import type { LoadTally } from "./load-tally.ts";
import type { LoadTenant } from "./load-tenant.ts";

/** All that a result is made of. */
export interface FinishedLoad {
  readonly tenants: readonly LoadTenant[];
  readonly tally: LoadTally;
  /** What counts: what was due from then on until then, from the start of the load. */
  readonly warmUpMs: number;
  readonly untilMs: number;
  readonly isStopped: boolean;
  readonly held: number;
  readonly underWayMost: number;
  readonly eventLoopDelayMs: number;
  readonly isMeasured: boolean;
  readonly keepsDetails: boolean;
  readonly setting: {
    readonly date: string;
    readonly model: string;
    readonly endpoint: "chat" | "completions";
    readonly ratePerSecond: number | undefined;
    readonly burstiness: number;
    readonly concurrencyMax: number;
    readonly seed: number;
  };
}
