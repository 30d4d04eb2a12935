import { expect, test } from "vitest";
import { MeasuredCost } from "../../../gpu-backend/kv-tiers/measured-cost.ts";

test("is what it was measured to be, after a while", () => {
  const cost = new MeasuredCost(1);
  expect(cost.at(0)).toBe(1);
  for (let nowMs = 0; nowMs < 100; nowMs += 1) cost.record(0.2, nowMs);
  expect(cost.at(100)).toBeCloseTo(0.2, 1);
});

test("one stall is no news of the speed", () => {
  const cost = new MeasuredCost(1);
  cost.record(60_000, 0);
  expect(cost.at(0)).toBeLessThan(2);
});

test("what was slow for long is believed to be, and is tried again in the end", () => {
  const cost = new MeasuredCost(1);
  for (let nowMs = 0; nowMs < 200; nowMs += 1) cost.record(1000, nowMs);
  expect(cost.at(200)).toBeGreaterThan(500);
  expect(cost.at(10_200)).toBeLessThan(0.55 * cost.at(200));
  expect(cost.at(200_000)).toBeCloseTo(1, 1);
});
