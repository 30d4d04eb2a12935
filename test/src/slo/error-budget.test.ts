import { describe, expect, test } from "vitest";
import type { AttainmentCounts, AttainmentEvent } from "../../../src/slo/attainment-window.ts";
import { AttainmentWindow, noCounts } from "../../../src/slo/attainment-window.ts";
import {
  budgetRatioOf,
  burnRate,
  isBurning,
  isContractBroken,
} from "../../../src/slo/error-budget.ts";
import { BUILT_IN_CLASSES } from "../../../src/slo/targets.ts";

const MIN = 60_000;

const counts = (change: Partial<AttainmentCounts>) => ({ ...noCounts(), ...change });

const ended = (kind: "good" | "missed"): AttainmentEvent => ({
  kind: "ended",
  attainment: { kind, missed: kind === "missed" ? ["ttft"] : [], isDegraded: false },
  costMs: 1,
});

/** Ten requests a second from `fromMs` to `toMs`, one in `badEvery` of them bad. */
function run(
  window: AttainmentWindow,
  {
    fromMs,
    toMs,
    badEvery,
    everyMs = 100,
  }: {
    fromMs: number;
    toMs: number;
    badEvery: number;
    everyMs?: number;
  },
) {
  let n = 0;
  for (let nowMs = fromMs; nowMs < toMs; nowMs += everyMs) {
    n += 1;
    window.add(ended(n % badEvery === 0 ? "missed" : "good"), nowMs);
  }
}

describe("budgetRatioOf()", () => {
  test("is what the loosest percentile allows", () => {
    expect(budgetRatioOf(BUILT_IN_CLASSES["chat"] ?? {})).toBeCloseTo(0.01, 12);
    const tpot = { percentileRatio: 0.999, limitMs: 1 };
    const e2e = { percentileRatio: 0.95, limitMs: 1 };
    expect(budgetRatioOf({ tpot })).toBeCloseTo(0.001, 12);
    expect(budgetRatioOf({ tpot, e2e })).toBeCloseTo(0.05, 12);
    expect(budgetRatioOf({ tbtMaxMs: 200 })).toBe(0.01);
  });
});

describe("burnRate()", () => {
  test("is 1 where exactly the budget is spent, and 0 where nothing was judged", () => {
    expect(burnRate(counts({ good: 99, missed: 1 }), 0.01)).toBeCloseTo(1, 12);
    expect(burnRate(counts({ good: 95, missed: 5 }), 0.05)).toBeCloseTo(1, 12);
    expect(burnRate(counts({ offered: 10, excluded: 5, rejectedOutOfProfile: 5 }), 0.01)).toBe(0);
  });

  test("a refusal spends it within the guarantee only", () => {
    expect(burnRate(counts({ good: 98, missed: 1, rejectedInProfile: 1 }), 0.01)).toBeCloseTo(2);
    expect(burnRate(counts({ good: 99, missed: 1, rejectedOutOfProfile: 500 }), 0.01)).toBeCloseTo(
      1,
    );
  });

  test("degraded answers neither spend it nor water it down", () => {
    expect(burnRate(counts({ good: 99, missed: 1, degraded: 900 }), 0.01)).toBeCloseTo(1, 12);
  });
});

describe("isContractBroken()", () => {
  test("goes by the share from 500 requests on", () => {
    expect(isContractBroken(counts({ good: 495, missed: 5 }), 0.01)).toBe(false);
    expect(isContractBroken(counts({ good: 494, missed: 6 }), 0.01)).toBe(true);
  });

  test("goes by what chance explains below that", () => {
    expect(isContractBroken(counts({ good: 97, missed: 3 }), 0.01)).toBe(false);
    expect(isContractBroken(counts({ good: 96, missed: 4 }), 0.01)).toBe(true);
  });
});

describe("isBurning()", () => {
  test("spending exactly the budget is no alarm", () => {
    const window = new AttainmentWindow();
    run(window, { fromMs: 0, toMs: 60 * MIN, badEvery: 100 });
    expect(isBurning(window, 60 * MIN)).toBe(false);
  });

  test("a fast burn is an alarm once the hour shows it, and none soon after it has stopped", () => {
    const window = new AttainmentWindow();
    run(window, { fromMs: 0, toMs: 50 * MIN, badEvery: 1000 });
    run(window, { fromMs: 50 * MIN, toMs: 51 * MIN, badEvery: 1 });
    expect(isBurning(window, 51 * MIN)).toBe(false);
    run(window, { fromMs: 51 * MIN, toMs: 60 * MIN, badEvery: 1 });
    expect(isBurning(window, 60 * MIN)).toBe(true);
    run(window, { fromMs: 60 * MIN, toMs: 66 * MIN, badEvery: 1000 });
    // The half-hour still sees it, and the six hours with it.
    expect(isBurning(window, 66 * MIN)).toBe(true);
    run(window, { fromMs: 66 * MIN, toMs: 96 * MIN, badEvery: 1000 });
    expect(isBurning(window, 96 * MIN)).toBe(false);
  });

  test("a slow burn is an alarm by the pair of longer windows", () => {
    const window = new AttainmentWindow();
    run(window, { fromMs: 0, toMs: 180 * MIN, badEvery: 12 });
    expect(isBurning(window, 180 * MIN)).toBe(true);
    const slower = new AttainmentWindow();
    run(slower, { fromMs: 0, toMs: 180 * MIN, badEvery: 20 });
    expect(isBurning(slower, 180 * MIN)).toBe(false);
  });

  test("a single bad request of few is no alarm, however high the rate", () => {
    const window = new AttainmentWindow();
    window.add(ended("missed"), 0);
    window.add(ended("good"), 1);
    expect(burnRate(window.sum(5 * MIN, 1), 0.01)).toBe(50);
    expect(isBurning(window, 1)).toBe(false);
    window.add(ended("missed"), 2);
    window.add(ended("missed"), 3);
    expect(isBurning(window, 3)).toBe(true);
  });

  test("a wide budget can burn as well", () => {
    const window = new AttainmentWindow();
    run(window, { fromMs: 0, toMs: 60 * MIN, badEvery: 1 });
    expect(isBurning(window, 60 * MIN, 0.5)).toBe(true);
    const within = new AttainmentWindow();
    run(within, { fromMs: 0, toMs: 60 * MIN, badEvery: 2 });
    expect(isBurning(within, 60 * MIN, 0.5)).toBe(false);
  });
});
