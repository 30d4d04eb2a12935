import { describe, expect, test } from "vitest";
import type { ForeseenPace } from "../../../src/pool/foreseen-pace.ts";
import {
  decidingPaceMs,
  judgedPaceMs,
  keptPaceMs,
  predictedPaceMs,
  slowestPaceMs,
} from "../../../src/pool/foreseen-pace.ts";
import { BUSY_LOAD } from "../forecast/support/loads.ts";

const PACED = { ...BUSY_LOAD, keepsTbt: true };
const UNPACED = { ...BUSY_LOAD, keepsTbt: false };
const FORECAST = { tpotMs: 45, decodeStepMs: 30 };

/** Decodes take 30 ms, at most 33; the engine may stretch the pace up to 54 of a target of 60. */
const foreseen = (change: Partial<ForeseenPace> = {}): ForeseenPace => ({
  profile: "p",
  tenantId: "t",
  targetMs: 60,
  predictedMs: 30,
  boundMs: 33,
  keptMs: 54,
  ...change,
});

describe("an engine that keeps gaps", () => {
  test("is foreseen by its decodes, which have to fit into what it keeps of a target", () => {
    expect(predictedPaceMs(FORECAST, PACED)).toBe(30);
    expect(keptPaceMs(60, PACED)).toBeCloseTo(54);
    expect(decidingPaceMs(54, PACED)).toBeCloseTo(60);
  });

  test("is judged by what goes beyond the gap that it may stretch to", () => {
    expect(judgedPaceMs(foreseen(), 53)).toBe(30);
    expect(judgedPaceMs(foreseen(), 61)).toBe(37);
    // Decodes alone are beyond it: the engine keeps nothing, and all is the forecast's.
    expect(judgedPaceMs(foreseen({ predictedMs: 58 }), 61)).toBe(61);
  });

  test("says nothing of a forecast where it was told no gap", () => {
    expect(judgedPaceMs(foreseen({ keptMs: Infinity }), 500)).toBeUndefined();
  });

  test("is as slow as the gap at the worst, unless even so much prefill is not believed to come", () => {
    expect(slowestPaceMs(foreseen(), { tpotMs: 45 }, PACED)).toBe(54);
    expect(slowestPaceMs(foreseen(), { tpotMs: 31 }, PACED)).toBeCloseTo(49.6);
    expect(slowestPaceMs(foreseen({ keptMs: Infinity }), { tpotMs: 45 }, PACED)).toBe(72);
  });
});

test("an engine that keeps none is foreseen with its prefill, held against the target, and judged by all", () => {
  expect(predictedPaceMs(FORECAST, UNPACED)).toBe(45);
  expect(keptPaceMs(60, UNPACED)).toBe(0);
  expect(decidingPaceMs(54, UNPACED)).toBe(54);
  expect(judgedPaceMs(foreseen({ keptMs: 0 }), 53)).toBe(53);
  expect(slowestPaceMs(foreseen({ keptMs: 0 }), { tpotMs: 45 }, UNPACED)).toBe(33);
});
