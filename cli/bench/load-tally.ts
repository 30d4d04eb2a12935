import { unreachable } from "../../src/base/assert.ts";
import { QuantileSketch } from "../../src/base/quantile-sketch.ts";
import { fluidityIndex } from "../../src/slo/fluidity.ts";
import type { Goals } from "./goals.ts";
import { meetsGoals } from "./goals.ts";
import type { LoadRecord } from "./load-record.ts";
import { e2eMsOf, tpotMsOf } from "./load-record.ts";
import type { LoadTenant } from "./load-tenant.ts";
import { ReasonCounts } from "./reason-counts.ts";

/** A request that counts, in a size that does not grow with its answer. */
export interface CountedRequest {
  readonly tenantIndex: number;
  /** From the start of the load. */
  readonly dueMs: number;
  readonly latenessMs: number;
  readonly ending: LoadRecord["end"]["kind"];
  readonly ttftMs: number;
  readonly tpotMs: number;
  readonly e2eMs: number;
  readonly inputTokens: number;
  readonly outputTokens: number;
  readonly isGood: boolean;
  /** Of its deadlines, the share that was met; absent where the goals set none, or nothing came. */
  readonly fluidity: number | undefined;
  /** Only where details are kept. */
  readonly gapsMs?: readonly number[];
  readonly error: string;
}

/** When a request was there, whether it counts or not. */
export interface RequestSpan {
  readonly dueMs: number;
  readonly endedMs: number;
  readonly isAnswered: boolean;
  readonly inputTokens: number;
  readonly outputTokens: number;
}

/** Sums over the gaps of a tenant's answers: there are too many to keep each. */
export interface GapSums {
  readonly sketch: QuantileSketch;
  count: number;
  sumMs: number;
  squaresMs: number;
}

export interface LoadTallyOptions {
  readonly tenants: readonly LoadTenant[];
  readonly beganAtMs: number;
  /** Requests that were due before this, from the start of the load, do not count. */
  readonly warmUpMs: number;
  readonly keepsGaps: boolean;
}

/** Gaps that are kept one by one at most, in all: 8 bytes each. */
const GAPS_MAX = 4_000_000;

/** Counts what becomes of a load's requests, those of the warm-up apart. */
export class LoadTally {
  readonly counted: CountedRequest[] = [];
  readonly spans: RequestSpan[] = [];
  readonly gapsByTenant: readonly GapSums[];
  /** By status, of each tenant. */
  readonly refusals: readonly Map<number, number>[];
  /** By reason, of each tenant. */
  readonly failures: readonly ReasonCounts[];
  readonly #options: LoadTallyOptions;
  #keptGaps = 0;

  constructor(options: LoadTallyOptions) {
    this.#options = options;
    this.gapsByTenant = options.tenants.map(() => ({
      sketch: new QuantileSketch(),
      count: 0,
      sumMs: 0,
      squaresMs: 0,
    }));
    this.refusals = options.tenants.map(() => new Map());
    this.failures = options.tenants.map(() => new ReasonCounts());
  }

  /** Whether there were more gaps than are kept: details are then missing. */
  get hasLostGaps(): boolean {
    return this.#options.keepsGaps && this.#keptGaps > GAPS_MAX;
  }

  add(record: LoadRecord): void {
    const { tenants, beganAtMs, warmUpMs } = this.#options;
    const dueMs = record.dueAtMs - beganAtMs;
    const { end, tenantIndex, gapsMs, inputTokens, outputTokens } = record;
    const isAnswered = end.kind === "answered";
    const endedMs = record.endedAtMs - beganAtMs;
    this.spans.push({ dueMs, endedMs, isAnswered, inputTokens, outputTokens });
    if (dueMs < warmUpMs) return;
    if (isAnswered) this.#addGaps(tenantIndex, gapsMs);
    if (end.kind === "refused") {
      const byStatus = this.refusals[tenantIndex];
      byStatus?.set(end.status, (byStatus.get(end.status) ?? 0) + 1);
    }
    if (end.kind === "failed") this.failures[tenantIndex]?.add(end.reason);
    const goals = tenants[tenantIndex]?.goals ?? {};
    const answer = {
      ttftMs: isAnswered ? (record.ttftMs ?? Infinity) : Infinity,
      tpotMs: isAnswered ? tpotMsOf(record) : Infinity,
      e2eMs: isAnswered ? e2eMsOf(record) : Infinity,
      longestGapMs: gapsMs.reduce((longest, gapMs) => Math.max(longest, gapMs), 0),
    };
    this.counted.push({
      tenantIndex,
      dueMs,
      latenessMs: Math.max(0, record.sentAtMs - record.dueAtMs),
      ending: end.kind,
      ttftMs: answer.ttftMs,
      tpotMs: answer.tpotMs,
      e2eMs: answer.e2eMs,
      inputTokens,
      outputTokens,
      isGood: isAnswered && meetsGoals(answer, goals),
      fluidity: isAnswered ? fluidityOf(record, goals) : undefined,
      ...(this.#mayKeep(gapsMs.length) && { gapsMs }),
      error: errorOf(end),
    });
  }

  #addGaps(tenantIndex: number, gapsMs: readonly number[]): void {
    const sums = this.gapsByTenant[tenantIndex];
    if (sums === undefined) return;
    for (const gapMs of gapsMs) {
      sums.sketch.add(gapMs);
      sums.count += 1;
      sums.sumMs += gapMs;
      sums.squaresMs += gapMs * gapMs;
    }
  }

  #mayKeep(gaps: number): boolean {
    if (!this.#options.keepsGaps) return false;
    this.#keptGaps += gaps;
    return this.#keptGaps <= GAPS_MAX;
  }
}

function fluidityOf(
  { ttftMs, gapsMs }: LoadRecord,
  { ttft, tpot, tbt }: Goals,
): number | undefined {
  const gapLimitMs = tbt ?? tpot;
  if (ttftMs === undefined || ttft === undefined || gapLimitMs === undefined) return undefined;
  return fluidityIndex([ttftMs, ...gapsMs], { ttftMs: ttft, tbtMs: gapLimitMs });
}

function errorOf(end: LoadRecord["end"]): string {
  switch (end.kind) {
    case "answered":
      return "";
    case "cancelled":
      return "cancelled";
    case "refused":
      return `refused with ${end.status}${end.code === undefined ? "" : ` ${end.code}`}`;
    case "failed":
      return end.reason;
    default:
      return unreachable(end);
  }
}
