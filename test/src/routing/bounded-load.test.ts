import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { isBelowCeiling, loadCeiling, poolLoad } from "../../../src/routing/bounded-load.ts";
import { anyCandidates, candidate } from "./candidates.ts";

describe("loadCeiling", () => {
  test("is ⌈1.25 · (total + 1) / n⌉ where all replicas are equal", () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 0, max: 300 }), { minLength: 1 }), (loads) => {
        const replicas = loads.map((sequences, index) => candidate(`r${index}`, { sequences }));
        const total = loads.reduce((sum, load) => sum + load, 0);
        const exact = (1.25 * (total + 1)) / loads.length;
        const pool = poolLoad(replicas);
        for (const replica of replicas) {
          // A sum of fractions may miss a whole number by a hair, and then round up past it.
          expect(loadCeiling(replica, pool)).toBeGreaterThanOrEqual(Math.ceil(exact - 1e-9));
          expect(loadCeiling(replica, pool)).toBeLessThanOrEqual(Math.ceil(exact + 1e-9));
        }
      }),
    );
  });

  test("leaves at least one replica of any pool below its ceiling", () => {
    fc.assert(
      fc.property(anyCandidates, (replicas) => {
        const pool = poolLoad(replicas);
        expect(replicas.length === 0 || replicas.some((r) => isBelowCeiling(r, pool))).toBe(true);
      }),
    );
  });

  test("is the same for replicas whose measured capacities hardly differ", () => {
    const replicas = [58, 61, 64, 70].map((capacity, index) =>
      candidate(`r${index}`, { capacity, sequences: 3 }),
    );
    const pool = poolLoad(replicas);
    expect(new Set(replicas.map((replica) => loadCeiling(replica, pool)))).toEqual(new Set([5]));
  });

  test("gives a replica four times as fast four times as much", () => {
    const fast = candidate("fast", { capacity: 256, sequences: 60 });
    const slow = candidate("slow", { capacity: 64, sequences: 19 });
    const pool = poolLoad([fast, slow]);
    expect([loadCeiling(fast, pool), loadCeiling(slow, pool)]).toEqual([80, 20]);
  });

  test("gives a replica that has just returned the share that it may have", () => {
    const old = [1, 2, 3].map((index) => candidate(`r${index}`, { sequences: 33 }));
    const returned = candidate("returned", { capacityRatio: 0.1 });
    const pool = poolLoad([...old, returned]);
    expect(loadCeiling(returned, pool)).toBe(Math.ceil((1.25 * 100 * 0.1) / 3.1));
  });
});
