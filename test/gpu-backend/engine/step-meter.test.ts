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
