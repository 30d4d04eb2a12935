import { describe, expect, test } from "vitest";
import { findsOutWhatIsToldWrongly } from "../../../simulator/promises/claims.ts";
import { brokenOf } from "../../../simulator/promises/finding.ts";
import { breaks, LONG } from "./breaks.ts";

describe("a pool whose replicas are wrong about their steps", LONG, () => {
  const wrong = { seeds: 2, measuredMs: 6_000 };

  test.each([0.7, 2])("serves as much as one whose replicas are right: told %f times", (ratio) => {
    expect(brokenOf(findsOutWhatIsToldWrongly(wrong, ratio))).toEqual([]);
  });

  test("refuses far more where it believes them", () => {
    const believing = { ...wrong, mechanisms: { doubt: false } };
    expect(findsOutWhatIsToldWrongly(believing, 2)).toSatisfy(breaks("good of what"));
  });

  test("refuses promised work where it believes that they are fast", () => {
    const believing = { ...wrong, mechanisms: { doubt: false } };
    expect(findsOutWhatIsToldWrongly(believing, 0.7)).toSatisfy(breaks("kept promises"));
  });
});
