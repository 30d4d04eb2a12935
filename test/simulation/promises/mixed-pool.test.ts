import { describe, expect, test } from "vitest";
import { brokenOf } from "../../../simulator/promises/finding.ts";
import { mixesEngines } from "../../../simulator/promises/mixed-pool.ts";
import { breaks, LONG } from "./breaks.ts";

describe("a pool of engines of different make, speed and honesty", LONG, () => {
  const mixed = { seeds: 3, measuredMs: 15_000 };

  test("keeps its p99, and the one that says it is idle draws no herd", () => {
    expect(brokenOf(mixesEngines(mixed))).toEqual([]);
  });

  test("breaks promises and fills the liar where servers are taken at their word", () => {
    const findings = mixesEngines({ ...mixed, mechanisms: { ledger: false } });
    expect(findings).toSatisfy(breaks("kept promises"));
    expect(findings).toSatisfy(breaks("the most it had at once"));
  });
});
