import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { selectCut } from "../../../gpu-backend/engine/select-cut.ts";

// Whole numbers add up exactly in any order, and few of them make many ties.
const values = fc.array(fc.nat(6), { minLength: 1, maxLength: 40, size: "max" });

describe("selectCut()", () => {
  test("agrees with walking down the sorted values", () => {
    fc.assert(
      fc.property(values, fc.nat(120), fc.constantFrom("count", "sum"), (list, target, measure) => {
        const descending = list.toSorted((a, b) => b - a);
        let passed = 0;
        const expected = descending.find((value) => {
          passed += measure === "count" ? 1 : value;
          return passed >= target;
        });
        const cut = selectCut(Float64Array.from(list), measure, target);
        expect(cut).toBe(expected ?? descending.at(-1));
      }),
      { numRuns: 1000 },
    );
  });

  test("keeps the values that it reorders", () => {
    fc.assert(
      fc.property(values, fc.nat(120), (list, target) => {
        const reordered = Float64Array.from(list);
        selectCut(reordered, "sum", target);
        expect(reordered.toSorted()).toEqual(Float64Array.from(list).toSorted());
      }),
    );
  });
});
