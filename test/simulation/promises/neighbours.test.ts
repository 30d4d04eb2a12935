import { describe, expect, test } from "vitest";
import { brokenOf } from "../../../simulator/promises/finding.ts";
import {
  othersKeepTheirsBesideTheFailing,
  othersKeepTheirsBesideTheNoisy,
  othersKeepTheirsBesideTheRunaway,
} from "../../../simulator/promises/neighbours.ts";
import { breaks, LONG } from "./breaks.ts";

describe("other tenants lose less than half a point of what they were promised", LONG, () => {
  const noisy = { seeds: 1, measuredMs: 12_000 };

  test("beside one that asks for twenty times its part", () => {
    expect(brokenOf(othersKeepTheirsBesideTheNoisy(noisy))).toEqual([]);
  });

  test("but more where nothing is guaranteed", () => {
    const mechanisms = { guarantees: false };
    const unguarded = othersKeepTheirsBesideTheNoisy({ seeds: 1, measuredMs: 4_000, mechanisms });
    expect(unguarded).toSatisfy(breaks("loses"));
  });

  const failing = { seeds: 2, measuredMs: 40_000 };

  test("beside one whose requests all fail", () => {
    expect(brokenOf(othersKeepTheirsBesideTheFailing(failing))).toEqual([]);
  });

  test("but more where replicas are blamed for it", () => {
    const mechanisms = { blame: false };
    const blamed = othersKeepTheirsBesideTheFailing({ ...failing, mechanisms });
    expect(blamed).toSatisfy(breaks("tight loses"));
  });

  const burning = { seeds: 2, measuredMs: 40_000 };

  test("beside one whose answers grow long without a warning", () => {
    expect(brokenOf(othersKeepTheirsBesideTheRunaway(burning))).toEqual([]);
  });

  test("but more where a request is charged for that only at its end", () => {
    const mechanisms = { revision: false };
    const late = othersKeepTheirsBesideTheRunaway({ ...burning, seeds: 1, mechanisms });
    expect(late).toSatisfy(breaks("tight loses"));
  });
});
