import { describe, expect, test } from "vitest";
import { brokenOf } from "../../../simulator/promises/finding.ts";
import { servesLowerBands, sharesByWeight } from "../../../simulator/promises/sharing.ts";
import { leavesNoReplicaEmpty } from "../../../simulator/promises/work-conservation.ts";
import { breaks, LONG } from "./breaks.ts";

describe("when all ask for more than there is", LONG, () => {
  const options = { seeds: 2, measuredMs: 10_000 };

  test("nobody waits beside an empty replica", () => {
    expect(brokenOf(leavesNoReplicaEmpty({ seeds: 1, measuredMs: 12_000 }))).toEqual([]);
  });

  test("a tenant of twice the weight gets twice the cost, give or take a twentieth", () => {
    expect(brokenOf(sharesByWeight({ seeds: 2, measuredMs: 15_000 }))).toEqual([]);
  });

  test("but not where turns go by deadline", () => {
    const mechanisms = { fairness: false };
    expect(sharesByWeight({ seeds: 1, measuredMs: 5_000, mechanisms })).toSatisfy(
      breaks("weight two"),
    );
  });

  test("the least urgent are served as well", () => {
    expect(brokenOf(servesLowerBands(options))).toEqual([]);
  });
});
