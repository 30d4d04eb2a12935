import { describe, expect, test } from "vitest";
import type { LoadResult } from "../../../cli/bench/load-result.ts";
import { sweepRates } from "../../../cli/bench/sweep-rates.ts";

const { signal } = new AbortController();

/** A server that is good up to a rate: only what a sweep looks at is there. */
const good = (rate: number, most: number) => {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- see above
  return { attainment_offered: rate <= most ? 1 : 0.5, interrupted: false } as LoadResult;
};

const sweep = (most: number, stop: AbortSignal = signal) =>
  sweepRates({
    from: 1,
    to: 64,
    target: 0.99,
    signal: stop,
    run: (rate) => Promise.resolve(good(rate, most)),
  });

describe("sweepRates()", () => {
  test.each([1.2, 7, 20, 63])("finds a knee at %d within 6 %", async (most) => {
    const { knee, isBounded, points } = await sweep(most);
    expect(isBounded).toBe(true);
    expect(knee ?? 0).toBeLessThanOrEqual(most);
    expect((knee ?? 0) / most).toBeGreaterThan(0.94);
    expect(points.length).toBeLessThan(16);
    expect(points.map(({ rate }) => rate)).toEqual(
      points.map(({ rate }) => rate).toSorted((a, b) => a - b),
    );
  });

  test("says where even the lowest rate is too much, and where the highest is not", async () => {
    expect(await sweep(0.5)).toMatchObject({ knee: null, isBounded: true });
    expect(await sweep(1_000)).toMatchObject({ knee: 64, isBounded: false });
  });

  test("tries nothing more once it is stopped", async () => {
    const stopped = new AbortController();
    stopped.abort();
    expect(await sweep(20, stopped.signal)).toMatchObject({ points: [], knee: null });
  });

  test("takes no rate for good at which it was stopped", async () => {
    const stopped = new AbortController();
    const found = await sweepRates({
      from: 1,
      to: 64,
      target: 0.99,
      signal: stopped.signal,
      run: (rate) => {
        if (rate > 2) stopped.abort();
        return Promise.resolve({ ...good(rate, 64), interrupted: stopped.signal.aborted });
      },
    });
    expect(found).toMatchObject({ knee: 1.5, isBounded: false });
    expect(found.points.map(({ rate }) => rate)).toEqual([1, 1.5, 2.25]);
  });
});
