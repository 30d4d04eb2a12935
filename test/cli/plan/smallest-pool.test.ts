import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { PlannedPool } from "../../../cli/plan/plan-pool.ts";
import { smallestPool } from "../../../cli/plan/smallest-pool.ts";

/** A pool that keeps its promises from so many replicas on. */
function planFrom(needed: number) {
  const planned: number[] = [];
  const plan = (replicas: number): PlannedPool => {
    planned.push(replicas);
    return { replicas, cells: 1, isKept: replicas >= needed, goodPerSecond: 0, tenants: [] };
  };
  return { plan, planned };
}

describe("smallestPool()", () => {
  test("finds the smallest pool, has tried the one below it, and tries none twice", () => {
    const bounds = fc.tuple(fc.integer({ min: 1, max: 200 }), fc.integer({ min: 0, max: 400 }));
    fc.assert(
      fc.property(bounds, fc.integer({ min: 1, max: 700 }), ([min, more], needed) => {
        const max = min + more;
        const { plan, planned } = planFrom(needed);
        const { smallest, tried } = smallestPool({ min, max }, plan);
        expect(smallest?.replicas).toBe(needed > max ? undefined : Math.max(min, needed));
        expect(new Set(planned).size).toBe(planned.length);
        const sizes = tried.map(({ replicas }) => replicas);
        expect(sizes).toEqual(planned.toSorted((a, b) => a - b));
        expect(Math.min(...sizes)).toBeGreaterThanOrEqual(min);
        expect(Math.max(...sizes)).toBeLessThanOrEqual(max);
        const below = (smallest?.replicas ?? min) - 1;
        expect(below < min || sizes.includes(below)).toBe(true);
        for (const [index, size] of planned.entries()) {
          const before = planned.slice(0, index);
          // What fails settles all below it, what keeps all above it.
          expect(before.every((each) => (each < needed ? size > each : size < each))).toBe(true);
          expect(size).toBeLessThanOrEqual(Math.max(min, 2 * needed));
        }
      }),
    );
  });

  test("plans one size where only that is asked for", () => {
    const { plan, planned } = planFrom(2);
    expect(smallestPool({ min: 7, max: 7 }, plan).smallest?.replicas).toBe(7);
    expect(planned).toEqual([7]);
  });
});
