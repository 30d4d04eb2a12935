import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { Pacer } from "../../../src/streaming/pacer.ts";

const GAP_MS_MAX = 100;

/** When texts go out that come at these instants. */
function paced(heardAtMs: readonly number[], gapMsMax = GAP_MS_MAX): number[] {
  const pacer = new Pacer({ gapMsMax });
  return heardAtMs.map((nowMs) => pacer.dueAtMs(nowMs));
}

function gapsOf(instants: readonly number[]): number[] {
  return instants.slice(1).map((atMs, index) => atMs - (instants[index] ?? 0));
}

/** So many texts at an even pace, from an instant on. */
function evenly(count: number, gapMs: number, fromMs = 0): number[] {
  return Array.from({ length: count }, (_, index) => fromMs + index * gapMs);
}

describe("Pacer", () => {
  test("keeps its laws whatever comes when", () => {
    const gaps = fc.array(fc.nat(400), { maxLength: 80 });
    fc.assert(
      fc.property(gaps, fc.integer({ min: 1, max: 300 }), (between, gapMsMax) => {
        let nowMs = 0;
        const heard = [0, ...between.map((gapMs) => (nowMs += gapMs))];
        const due = paced(heard, gapMsMax);
        expect(due[0]).toBe(0);
        for (const [index, dueAtMs] of due.entries()) {
          const heldMs = dueAtMs - (heard[index] ?? 0);
          expect(heldMs).toBeGreaterThanOrEqual(0);
          expect(heldMs).toBeLessThanOrEqual(gapMsMax);
        }
        for (const [index, gapMs] of gapsOf(due).entries()) {
          expect(gapMs).toBeGreaterThanOrEqual(0);
          // Exact but for rounding of instants.
          expect(gapMs).toBeLessThanOrEqual(Math.max(gapMsMax, between[index] ?? 0) + 1e-6);
        }
      }),
    );
  });

  test("hides a pause as long as what it holds, once a stream has gone on for a while", () => {
    const before = evenly(100, 20);
    const pauseMs = 90;
    const after = evenly(20, 20, (before.at(-1) ?? 0) + 20 + pauseMs);
    const seen = gapsOf(paced([...before, ...after]));
    expect(Math.max(...gapsOf([...before, ...after]))).toBe(20 + pauseMs);
    expect(Math.max(...seen)).toBeLessThan(40);
  });

  test("spreads what comes all at once behind a pause", () => {
    const before = evenly(60, 20);
    const burst = evenly(4, 0, (before.at(-1) ?? 0) + 120);
    expect(Math.min(...gapsOf(paced([...before, ...burst])).slice(-3))).toBeGreaterThan(10);
  });

  test("does not hold a stream that is slower than promised", () => {
    const heard = evenly(20, 150);
    expect(paced(heard)).toEqual(heard);
  });

  test("holds no more than one promised gap, however long the stream", () => {
    const heard = evenly(1_000, 20);
    const due = paced(heard);
    expect((due.at(-1) ?? 0) - (heard.at(-1) ?? 0)).toBe(GAP_MS_MAX);
  });
});
