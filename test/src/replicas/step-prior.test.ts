import { expect, test } from "vitest";
import { stepCostOf, tellsStepCost } from "../../../src/replicas/step-prior.ts";
import { aReport } from "../../support/replica-builders.ts";

const NOTHING = { fixedMs: 0, tokenMs: 0, attendedPairMs: 0, sequenceMs: 0, kvTokenMs: 0 };

test("what a replica has fitted is believed as it is", () => {
  const report = aReport(1);
  expect(tellsStepCost(report)).toBe(true);
  expect(stepCostOf(report)).toBe(report.step);
});

test("a replica that tells no costs is taken by the speed that it has measured", () => {
  const report = aReport(1, { step: NOTHING, stepMs: 25, prefillTokensPerSecond: 4000 });
  expect(tellsStepCost(report)).toBe(false);
  expect(stepCostOf(report)).toMatchObject({ fixedMs: 25, tokenMs: 0.25 });
});

test("a replica that has measured nothing is given a modest speed", () => {
  const report = aReport(1, { step: NOTHING, stepMs: 0, prefillTokensPerSecond: 0 });
  const { fixedMs, tokenMs } = stepCostOf(report);
  expect(fixedMs + 1000 * tokenMs).toBeGreaterThan(100);
  expect(fixedMs + 1000 * tokenMs).toBeLessThan(10_000);
});
