import { describe, expect, test } from "vitest";
import { brokenOf } from "../../../simulator/promises/finding.ts";
import { servesLowerBands } from "../../../simulator/promises/sharing.ts";
import { leavesNoReplicaEmpty } from "../../../simulator/promises/work-conservation.ts";
import { LONG } from "./breaks.ts";

// Not kept yet, so not a test yet; `npm run bench:promises` measures it:
//   a tenant of twice the weight gets twice the cost, give or take a twentieth
describe("when all ask for more than there is", LONG, () => {
  const options = { seeds: 2, measuredMs: 10_000 };

  test("nobody waits beside an empty replica", () => {
    expect(brokenOf(leavesNoReplicaEmpty({ seeds: 1, measuredMs: 12_000 }))).toEqual([]);
  });

  test("the least urgent are served as well", () => {
    expect(brokenOf(servesLowerBands(options))).toEqual([]);
  });
});
