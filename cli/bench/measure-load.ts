import { monitorEventLoopDelay } from "node:perf_hooks";
import { summarizeLoad } from "./summarize-load.ts";
import type { FinishedLoad } from "./finished-load.ts";
import type { LoadResult } from "./load-result.ts";
import { LoadTally } from "./load-tally.ts";
import type { LoadArrival, LoadTenant } from "./load-tenant.ts";
import type { LoadClock, LoadOptions } from "./run-load.ts";
import { runLoad } from "./run-load.ts";

export interface MeasuredLoad {
  readonly tenants: readonly LoadTenant[];
  readonly arrivals: Iterable<LoadArrival>;
  readonly clock: LoadClock;
  readonly send: LoadOptions["send"];
  readonly signal: AbortSignal;
  readonly warmUpMs: number;
  /** How long requests are due; absent: as long as there are arrivals. */
  readonly durationMs: number | undefined;
  readonly isMeasured: boolean;
  readonly keepsDetails: boolean;
  readonly setting: FinishedLoad["setting"];
  readonly onProgress?: (progress: LoadProgress) => void;
}

/** How far a load has come. */
export interface LoadProgress {
  readonly elapsedMs: number;
  readonly sent: number;
  readonly answered: number;
  readonly refused: number;
  readonly failed: number;
  readonly underWay: number;
}

const DELAY_RESOLUTION_MS = 10;

/** Runs a load and works out its result; a load that is stopped gives what there is by then. */
export async function measureLoad(load: MeasuredLoad): Promise<LoadResult> {
  const { tenants, clock, warmUpMs, keepsDetails, setting, onProgress } = load;
  const beganAtMs = clock.readNowMs();
  const tally = new LoadTally({ tenants, beganAtMs, warmUpMs, keepsGaps: keepsDetails });
  const progress = { sent: 0, answered: 0, refused: 0, failed: 0, cancelled: 0, underWay: 0 };
  let underWayMost = 0;
  let lastDueMs = 0;
  const tell = () => onProgress?.({ ...progress, elapsedMs: clock.readNowMs() - beganAtMs });
  const delay = monitorEventLoopDelay({ resolution: DELAY_RESOLUTION_MS });
  delay.enable();
  const end = await runLoad({
    ...load,
    concurrencyMax: setting.concurrencyMax,
    onSent: ({ underWay }) => {
      progress.sent += 1;
      progress.underWay = underWay;
      underWayMost = Math.max(underWayMost, underWay);
      tell();
    },
    onRecord: (record) => {
      progress[record.end.kind] += 1;
      progress.underWay -= 1;
      lastDueMs = Math.max(lastDueMs, record.dueAtMs - beganAtMs);
      tally.add(record);
      tell();
    },
  });
  delay.disable();
  const untilMs = load.durationMs ?? lastDueMs;
  return summarizeLoad({
    tenants,
    tally,
    warmUpMs,
    untilMs: Math.max(
      warmUpMs,
      end.isStopped ? Math.min(untilMs, end.endedAtMs - beganAtMs) : untilMs,
    ),
    isStopped: end.isStopped,
    held: end.held,
    underWayMost,
    eventLoopDelayMs: Math.max(0, delay.percentile(99) / 1e6 - DELAY_RESOLUTION_MS),
    isMeasured: load.isMeasured,
    keepsDetails: keepsDetails && !tally.hasLostGaps,
    setting,
  });
}
