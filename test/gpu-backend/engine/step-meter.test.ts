import { describe, expect, test } from "vitest";
import type { Batch, BatchRow } from "../../../gpu-backend/engine/batch.ts";
import { StepMeter } from "../../../gpu-backend/engine/step-meter.ts";
import { workOf } from "../../../gpu-backend/engine/batch-work.ts";

const aRow = (tokens: number, outputIndex: number): BatchRow => ({
  sequenceId: "a",
  tokens: new Int32Array(tokens),
  startPosition: 0,
  blockTable: new Int32Array(1),
  output: "last",
  outputIndex,
});

/** A batch with prefill chunks of these lengths and so many decodes. */
function aBatch(chunks: readonly number[], decodes = 0): Batch {
  const rows = [
    ...chunks.map((tokens) => aRow(tokens, 0)),
    ...Array.from({ length: decodes }, () => aRow(1, 5)),
  ];
  return { rows, totalTokens: rows.reduce((sum, { tokens }) => sum + tokens.length, 0) };
}

const aMeter = () => new StepMeter({ stepMs: 10, prefillTokensPerSecond: 2000 });

describe("StepMeter", () => {
  test("believes the warm-up until it has seen a step", () => {
    expect(aMeter().speed).toEqual({ stepMs: 10, prefillTokensPerSecond: 2000 });
  });

  test("approaches what steps show", () => {
    const meter = aMeter();
    for (let step = 0; step < 200; step++) meter.record(aBatch([100]), 25, step * 25);
    expect(meter.speed.stepMs).toBeCloseTo(25, 0);
    expect(meter.speed.prefillTokensPerSecond).toBeCloseTo(4000, -1);
  });

  test("its model learns from every step", () => {
    const meter = aMeter();
    const batch = aBatch([100]);
    for (let step = 0; step < 200; step++) meter.record(batch, 25, step * 25);
    expect(meter.model.predictMs(workOf(batch))).toBeCloseTo(25, 0);
  });

  test("decodes change the step's duration and not the speed of prefill", () => {
    const meter = aMeter();
    meter.record(aBatch([], 4), 1000, 0);
    expect(meter.speed.stepMs).toBeCloseTo(505);
    expect(meter.speed.prefillTokensPerSecond).toBe(2000);
  });

  test("a step that decodes as well is charged to prefill by its share", () => {
    const meter = aMeter();
    for (let step = 0; step < 50; step++) meter.record(aBatch([10, 20], 10), 40, step);
    expect(meter.speed.prefillTokensPerSecond).toBeCloseTo(1000, -1);
  });

  test("a prompt of one token is prefill", () => {
    const meter = aMeter();
    meter.record(aBatch([1]), 1.5, 0);
    expect(meter.speed.prefillTokensPerSecond).toBeCloseTo(1000);
  });

  test("forgets: after a long pause one step outweighs all before it", () => {
    const meter = aMeter();
    for (let step = 0; step < 100; step++) meter.record(aBatch([8]), 10, step);
    meter.record(aBatch([8]), 100, 3_600_000);
    expect(meter.speed.stepMs).toBeCloseTo(100);
  });

  test("a clock too coarse for a step does not make it infinitely fast", () => {
    const meter = aMeter();
    for (let step = 0; step < 100; step++) meter.record(aBatch([8]), 0, 3_600_000 * step);
    expect(meter.speed.stepMs).toBeGreaterThan(0);
    expect(Number.isFinite(meter.speed.prefillTokensPerSecond)).toBe(true);
  });
});

/** The steps of a machine that does what its warm-up said: half a millisecond a token, and ten with the first. */
const expectedMs = (batch: Batch) => 9.5 + 0.5 * batch.totalTokens;

/** Runs steps of changing size, each so many times as long as it was at the warm-up. */
function run(meter: StepMeter, slowdown: number, steps: number): void {
  for (let step = 0; step < steps; step++) {
    const batch = aBatch([50 + ((37 * step) % 200)], step % 4);
    meter.record(batch, slowdown * expectedMs(batch), 0);
  }
}

describe("speedRatio", () => {
  test("is 1 for a machine that is as fast as it was", () => {
    const meter = aMeter();
    expect(meter.measurements.speedRatio).toBe(1);
    run(meter, 1, 300);
    expect(meter.measurements.speedRatio).toBeCloseTo(1, 2);
  });

  test("together with the model follows a machine that is half as fast within dozens of steps", () => {
    const meter = aMeter();
    run(meter, 1, 300);
    run(meter, 2, 70);
    const batch = aBatch([100], 2);
    const { speedRatio } = meter.measurements;
    const predictedMs = speedRatio * meter.model.predictMs(workOf(batch));
    expect(speedRatio).toBeGreaterThan(1.3);
    expect(predictedMs / (2 * expectedMs(batch))).toBeGreaterThan(0.8);
    expect(predictedMs / (2 * expectedMs(batch))).toBeLessThan(1.2);
  });

  test("is 1 again once the model has learned the new speed", () => {
    const meter = aMeter();
    run(meter, 1, 300);
    run(meter, 2, 3000);
    expect(meter.measurements.speedRatio).toBeCloseTo(1, 1);
  });

  test("is hardly moved by one stall", () => {
    const meter = aMeter();
    run(meter, 1, 300);
    run(meter, 100, 1);
    expect(meter.measurements.speedRatio).toBeLessThan(1.06);
  });
});

const ratioOf = (meter: StepMeter) => meter.measurements.prefillTimeRatio;

describe("prefillTimeRatio", () => {
  test("is not raised by guesses of an output", () => {
    const meter = aMeter();
    const drafts = { tokenIds: new Int32Array(3), choices: [] };
    const batch: Batch = { rows: [{ ...aRow(4, 5), output: "all", drafts }], totalTokens: 4 };
    for (let step = 0; step < 50; step++) meter.record(batch, 40, step * 40);
    expect(ratioOf(meter)).toBe(0);
    expect(meter.speed.prefillTokensPerSecond).toBe(2000);
  });

  test("is 0 where everything decodes", () => {
    const meter = aMeter();
    for (let step = 1; step <= 100; step++) meter.record(aBatch([], 8), 20, 20 * step);
    expect(ratioOf(meter)).toBe(0);
  });

  test("is what the prefill adds to the steps that it is part of", () => {
    const meter = aMeter();
    const batch = aBatch([100], 8);
    const stepMs = expectedMs(batch);
    for (let step = 1; step <= 400; step++) meter.record(batch, stepMs, stepMs * step);
    const { tokenMs, attendedPairMs } = meter.model.coefficients;
    expect(ratioOf(meter)).toBeCloseTo((100 * tokenMs + 5050 * attendedPairMs) / stepMs, 1);
    expect(ratioOf(meter)).toBeGreaterThan(0.5);
  });

  test("halves when every second step has none", () => {
    const meter = aMeter();
    const always = aMeter();
    for (let step = 1; step <= 400; step++) {
      always.record(aBatch([20]), 19.5, 19.5 * step);
      meter.record(step % 2 === 0 ? aBatch([20]) : aBatch([], 20), 19.5, 19.5 * step);
    }
    expect(ratioOf(meter)).toBeGreaterThan(0.3 * ratioOf(always));
    expect(ratioOf(meter)).toBeLessThan(0.7 * ratioOf(always));
  });

  test("forgets over a pause", () => {
    const meter = aMeter();
    meter.record(aBatch([1000]), 510, 510);
    const before = ratioOf(meter);
    meter.record(aBatch([], 1), 10, 20_510);
    expect(before).toBeGreaterThan(0.1);
    expect(ratioOf(meter)).toBeLessThan(before / 1000);
  });

  test("stays a share, whatever a clock says", () => {
    const meter = aMeter();
    for (const [stepMs, nowMs] of [
      [0, 0],
      [1e9, 5],
      [3, 2],
    ] as const) {
      meter.record(aBatch([5]), stepMs, nowMs);
      expect(ratioOf(meter)).toBeGreaterThanOrEqual(0);
      expect(ratioOf(meter)).toBeLessThanOrEqual(1);
    }
  });
});
