import { describe, expect, test } from "vitest";
import type { SloCounts } from "../../../src/slo/slo-counts.ts";
import { noSloCounts } from "../../../src/slo/slo-counts.ts";
import { toSloReport } from "../../../src/slo/slo-report.ts";

const p99 = (limitMs: number) => ({ percentileRatio: 0.99, limitMs });
const TARGETS = { ttft: { ...p99(300), perPromptTokenMs: 0.2 }, tpot: p99(25), tbtMaxMs: 200 };

function windowWith(counts: Partial<SloCounts>) {
  const windows = [{ ...noSloCounts(), ...counts }, noSloCounts(), noSloCounts()];
  return toSloReport({ className: "voice", windows }, TARGETS).windows["5m"];
}

describe("toSloReport()", () => {
  test("tells what was promised, and which share may miss", () => {
    const report = toSloReport({ className: "voice", windows: [] }, TARGETS);
    expect(report).toMatchObject({
      class: "voice",
      targets: {
        ttft: { percentile: 0.99, limit_ms: 300, per_prompt_token_ms: 0.2 },
        tpot: { percentile: 0.99, limit_ms: 25 },
        tbt_max_ms: 200,
      },
    });
    expect(report.error_budget).toBeCloseTo(0.01, 12);
  });

  test("says nothing of shares where nothing was judged", () => {
    expect(windowWith({ excluded: 3, degraded: 2, inProfile: 5 })).toMatchObject({
      offered: 5,
      attainment: null,
      attainment_interval: null,
      error_budget_left: null,
      burn_rate: 0,
      goodput_per_second: 0,
      acceptance: 1,
      refusals: {},
      misses: {},
    });
  });

  test("counts what was refused within the guarantee as a miss, and what was beyond it not", () => {
    const { refusedFor, missedFor } = noSloCounts();
    const report = windowWith({
      good: 97,
      missed: 1,
      inProfile: 98,
      refusedInProfile: 2,
      refusedFor: { ...refusedFor, infeasible: 2, concurrency: 40 },
      missedFor: { ...missedFor, stall: 1 },
    });
    expect(report).toMatchObject({
      offered: 140,
      refused: 42,
      attainment: 0.97,
      acceptance: 0.98,
      refusals: { infeasible: 2, concurrency: 40 },
      misses: { stall: 1 },
    });
    expect(report.burn_rate).toBeCloseTo(3, 9);
    expect(report.error_budget_left).toBeCloseTo(-2, 9);
    expect(report.goodput_per_second).toBeCloseTo(97 / 300, 12);
    const [low, high] = report.attainment_interval ?? [];
    // The exact interval of 97 of 100, as tables have it.
    expect(low).toBeCloseTo(0.9148, 4);
    expect(high).toBeCloseTo(0.9938, 4);
  });

  test("of a class that the tenant does not have any more tells no targets", () => {
    expect(toSloReport({ className: "old", windows: [] }, undefined)).toMatchObject({
      targets: null,
      error_budget: null,
    });
  });
});
