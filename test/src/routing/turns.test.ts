import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { ReplicaId } from "../../../src/protocol/ids.ts";
import { Turns } from "../../../src/routing/turns.ts";
import { replicaIdOf } from "../../support/replica-builders.ts";

interface Weighted {
  readonly replicaId: ReplicaId;
  readonly weight: number;
  count: number;
}

/** Replicas of these weights, of which the least has 1. */
function weighted(weights: readonly number[]): Weighted[] {
  const least = Math.min(...weights);
  return weights.map((weight, index) => ({
    replicaId: replicaIdOf(index),
    weight: weight / least,
    count: 0,
  }));
}

/** Gives a request to whose turn it is of some replicas. */
function give(turns: Turns, among: readonly Weighted[]): Weighted {
  const [next] = among.toSorted(
    (a, b) => turns.nextOf(a.replicaId, a.weight) - turns.nextOf(b.replicaId, b.weight),
  );
  if (next === undefined) throw new Error("Somebody is there");
  turns.take(next.replicaId, next.weight);
  next.count += 1;
  return next;
}

const WEIGHTS = fc.array(fc.integer({ min: 1, max: 100 }), { minLength: 1, maxLength: 8 });

describe("Turns", () => {
  test("gives each its part at every moment: nobody is ahead of another by more than one request of that", () => {
    fc.assert(
      fc.property(WEIGHTS, fc.integer({ min: 1, max: 400 }), (weights, requests) => {
        const turns = new Turns();
        const all = weighted(weights);
        for (let request = 0; request < requests; request++) give(turns, all);
        for (const one of all) {
          for (const other of all) {
            const ahead = one.count / one.weight - other.count / other.weight;
            expect(ahead).toBeLessThanOrEqual(1 / other.weight + 1e-9);
          }
        }
      }),
    );
  });

  test("spaces the turns of one evenly", () => {
    const turns = new Turns();
    const [light, heavy] = weighted([1, 3]);
    if (light === undefined || heavy === undefined) throw new Error("There are two");
    const row = Array.from({ length: 40 }, () =>
      give(turns, [light, heavy]) === light ? "l" : "h",
    );
    expect(row.join("")).not.toMatch(/ll|hhhhh/);
    expect([light.count, heavy.count]).toEqual([10, 30]);
  });

  test.each([1, 10])(
    "counts what one was given for another reason, %i requests of it",
    (forced) => {
      const turns = new Turns();
      const all = weighted([1, 1]);
      const [one, other] = all;
      if (one === undefined || other === undefined) throw new Error("There are two");
      for (let request = 0; request < forced; request++) give(turns, [one]);
      const row = Array.from({ length: 20 }, () => give(turns, all));
      const behind = Math.min(forced, 4);
      expect(row.slice(0, behind)).toEqual(Array(behind).fill(other));
      expect(row.slice(behind, behind + 6).filter((next) => next === one)).toHaveLength(3);
    },
  );

  test("does not make up to one that comes anew, or back, for all that it has missed", () => {
    fc.assert(
      fc.property(WEIGHTS, fc.integer({ min: 0, max: 2_000 }), (weights, missed) => {
        const turns = new Turns();
        const [late, ...others] = weighted([1, ...weights]);
        if (late === undefined) throw new Error("Somebody is there");
        for (let request = 0; request < missed; request++) give(turns, others);
        let inARow = 0;
        while (give(turns, [late, ...others]) === late) inARow += 1;
        expect(inARow).toBeLessThanOrEqual(5 * late.weight);
      }),
    );
  });

  test("remembers nothing of one that has left", () => {
    const turns = new Turns();
    const [gone, stays] = weighted([1, 1]);
    if (gone === undefined || stays === undefined) throw new Error("There are two");
    for (let request = 0; request < 3; request++) give(turns, [gone]);
    expect(turns.nextOf(gone.replicaId, 1)).toBe(0);
    turns.keepOnly(new Set([stays.replicaId]));
    expect(turns.nextOf(gone.replicaId, 1)).toBe(turns.nextOf(stays.replicaId, 1));
  });
});
