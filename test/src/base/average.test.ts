import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { DecayingAverage } from "../../../src/base/average.ts";
import { copyState } from "../../../src/base/plain-state.ts";

describe("DecayingAverage", () => {
  test("an average without samples and without a prior has no value", () => {
    expect(new DecayingAverage({ halfLifeMs: 100 }).value).toBeUndefined();
  });

  test("samples of one instant count equally", () => {
    const average = new DecayingAverage({ halfLifeMs: 100 });
    for (const value of [1, 2, 6]) average.add(value, 50);
    expect(average.value).toBeCloseTo(3, 12);
  });

  test("a sample counts half as much after a half-life", () => {
    const average = new DecayingAverage({ halfLifeMs: 100 });
    average.add(0, 0);
    average.add(3, 100);
    expect(average.value).toBeCloseTo(2, 12);
  });

  test("a prior counts as a sample of its weight", () => {
    const average = new DecayingAverage({ halfLifeMs: 100, prior: { value: 10, weight: 3 } });
    expect(average.value).toBe(10);
    average.add(20, 0, 2);
    expect(average.value).toBeCloseTo(14, 12);
  });

  test("a value outlives a pause in which its weight fades to nothing", () => {
    const average = new DecayingAverage({ halfLifeMs: 1 });
    average.add(5, 0);
    average.add(7, 1_000_000);
    expect(average.value).toBe(7);
    expect(average.value).not.toBeNaN();
  });

  test("a clock that runs backwards lets nothing fade", () => {
    const average = new DecayingAverage({ halfLifeMs: 100 });
    average.add(1, 1000);
    average.add(3, 0);
    average.add(5, 1000);
    expect(average.value).toBeCloseTo(3, 12);
  });

  test("the mean lies between the least and the greatest sample", () => {
    const samples = fc.array(
      fc.record({ value: fc.double({ min: -1e6, max: 1e6, noNaN: true }), gapMs: fc.nat(5000) }),
      { minLength: 1, maxLength: 50 },
    );
    fc.assert(
      fc.property(samples, fc.integer({ min: 1, max: 1000 }), (sequence, halfLifeMs) => {
        const average = new DecayingAverage({ halfLifeMs });
        let nowMs = 0;
        for (const { value, gapMs } of sequence) average.add(value, (nowMs += gapMs));
        const values = sequence.map(({ value }) => value);
        const tolerance = 1e-6;
        expect(average.value).toBeGreaterThanOrEqual(Math.min(...values) - tolerance);
        expect(average.value).toBeLessThanOrEqual(Math.max(...values) + tolerance);
      }),
    );
  });

  test("one that goes on from a copy of its state has the same value as the original", () => {
    const options = { halfLifeMs: 100, prior: { value: 10, weight: 3 } };
    const original = new DecayingAverage(options);
    original.add(20, 50);
    const revived = new DecayingAverage(options, copyState(original.state));
    for (const average of [original, revived]) average.add(40, 250, 2);
    expect(revived.value).toBe(original.value);
    expect(revived.value).not.toBe(10);
  });
});
