import assert from "node:assert/strict";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { StepCoefficients, StepWork } from "../../../src/step-cost/step-model.ts";
import {
  addWork,
  NO_WORK,
  predictPrefillMs,
  StepModel,
  workOfChunk,
} from "../../../src/step-cost/step-model.ts";
import type { Random } from "../../../src/base/random.ts";
import { seededRandom } from "../../../src/base/random.ts";

const PRIOR: StepCoefficients = {
  fixedMs: 5,
  tokenMs: 0.1,
  attendedPairMs: 0,
  sequenceMs: 0,
  kvTokenMs: 0,
};

const durationMs = (truth: StepCoefficients, work: StepWork) =>
  truth.fixedMs +
  truth.tokenMs * work.tokens +
  truth.attendedPairMs * work.attendedPairs +
  truth.sequenceMs * work.sequences +
  truth.kvTokenMs * work.kvTokens;

const NAMES = ["fixedMs", "tokenMs", "attendedPairMs", "sequenceMs", "kvTokenMs"] as const;

/** How much such machines may take for one unit of each kind of work. */
const SCALE: StepCoefficients = {
  fixedMs: 10,
  tokenMs: 0.2,
  attendedPairMs: 5e-5,
  sequenceMs: 0.5,
  kvTokenMs: 2e-3,
};

/** Squares of relative errors, faded as the model fades them. */
function errorOf(
  coefficients: StepCoefficients,
  steps: readonly { readonly work: StepWork; readonly lastedMs: number }[],
): number {
  let error = 0;
  for (const { work, lastedMs } of steps) {
    const kept = 1 - 1 / 500;
    error = kept * error + (durationMs(coefficients, work) / lastedMs - 1) ** 2;
  }
  return error;
}

const coefficient = (max: number) => fc.double({ min: max / 10, max, noNaN: true });

/** A step of up to 16 sequences, about every tenth of which has a chunk of prefill. */
function randomWork(random: Random): StepWork {
  const upTo = (max: number) => Math.floor(random() * max);
  let work = NO_WORK;
  for (let sequences = 1 + upTo(16); sequences > 0; sequences--) {
    const tokens = random() < 0.1 ? 1 + upTo(200) : 1;
    work = addWork(work, workOfChunk(upTo(2000), tokens));
  }
  return work;
}

describe("StepModel", () => {
  test("believes its prior until it has seen a step", () => {
    expect(new StepModel(PRIOR).coefficients).toEqual(PRIOR);
    expect(new StepModel(PRIOR).predictMs(workOfChunk(0, 10))).toBe(6);
  });

  test("finds the coefficients that steps follow, whatever the unit of time", () => {
    const truth = fc.record({
      fixedMs: coefficient(10),
      tokenMs: coefficient(0.2),
      attendedPairMs: coefficient(5e-5),
      sequenceMs: coefficient(0.5),
      kvTokenMs: coefficient(2e-3),
    });
    const scale = fc.constantFrom(0.1, 1, 10);
    fc.assert(
      fc.property(truth, scale, fc.integer(), (unscaled, factor, seed) => {
        const random = seededRandom(seed);
        const model = new StepModel(PRIOR);
        const timeOf = (work: StepWork) => factor * durationMs(unscaled, work);
        // Ten times its memory: before that a term that steps hardly show alone leans on the prior.
        for (let step = 0; step < 5000; step++) {
          const work = randomWork(random);
          model.record(work, timeOf(work));
        }
        for (let check = 0; check < 50; check++) {
          const work = randomWork(random);
          expect(Math.abs(model.predictMs(work) / timeOf(work) - 1)).toBeLessThan(0.02);
        }
      }),
      { numRuns: 30 },
    );
  });

  test("tells KV that decodes read from pairs that prefill attends to, by few prefills among many decodes", () => {
    const truth = {
      fixedMs: 4,
      tokenMs: 0.014,
      attendedPairMs: 1e-6,
      sequenceMs: 0.01,
      kvTokenMs: 3e-5,
    };
    const random = seededRandom(8);
    const model = new StepModel({ ...truth, attendedPairMs: 4e-5, kvTokenMs: 3e-6 });
    for (let step = 0; step < 5000; step++) {
      let work = NO_WORK;
      for (let sequences = 1 + Math.floor(random() * 60); sequences > 0; sequences--) {
        work = addWork(work, workOfChunk(Math.floor(random() * 4000), 1));
      }
      const chunk = workOfChunk(Math.floor(random() * 12_000), 500 + Math.floor(random() * 3000));
      if (step % 40 === 0) work = addWork(work, chunk);
      model.record(work, durationMs(truth, work));
    }
    const prefill = workOfChunk(0, 20_000);
    const decodes = { tokens: 100, attendedPairs: 4e5, sequences: 100, kvTokens: 4e5 };
    for (const work of [prefill, decodes]) {
      expect(Math.abs(model.predictMs(work) / durationMs(truth, work) - 1)).toBeLessThan(0.02);
    }
  });

  test("sees through noise and through rare stalls", () => {
    const truth = { ...PRIOR, tokenMs: 0.03, sequenceMs: 0.4, kvTokenMs: 0.001 };
    const random = seededRandom(5);
    const model = new StepModel(PRIOR);
    for (let step = 0; step < 3000; step++) {
      const work = randomWork(random);
      const stall = random() < 0.01 ? 50 : 1;
      model.record(work, durationMs(truth, work) * (0.95 + 0.1 * random()) * stall);
    }
    const errors = Array.from({ length: 200 }, () => {
      const work = randomWork(random);
      return Math.abs(model.predictMs(work) / durationMs(truth, work) - 1);
    });
    expect(errors.reduce((sum, error) => sum + error, 0) / errors.length).toBeLessThan(0.05);
  });

  test("no other coefficients of zero and above fit the steps noticeably better", () => {
    const maybe = (max: number) => fc.oneof(fc.constant(0), coefficient(max));
    const truth = fc.record({
      fixedMs: maybe(10),
      tokenMs: coefficient(0.2),
      attendedPairMs: maybe(5e-5),
      sequenceMs: maybe(0.5),
      kvTokenMs: maybe(2e-3),
    });
    fc.assert(
      fc.property(truth, fc.integer(), (coefficients, seed) => {
        const random = seededRandom(seed);
        const model = new StepModel(PRIOR);
        const steps: { readonly work: StepWork; readonly lastedMs: number }[] = [];
        for (let step = 0; step < 3000; step++) {
          const work = randomWork(random);
          // Noise, by which terms that cost nothing come out below zero.
          const lastedMs = durationMs(coefficients, work) * (0.7 + 0.6 * random());
          steps.push({ work, lastedMs });
          model.record(work, lastedMs);
        }
        const fitted = model.coefficients;
        const error = errorOf(fitted, steps);
        for (const name of NAMES) {
          // A term of zero that the steps want back would lessen the error with any step towards it.
          for (const share of [1e-3, 1e-2, 0.1]) {
            const away = { ...fitted, [name]: fitted[name] + share * SCALE[name] };
            expect(errorOf(away, steps) / error).toBeGreaterThan(0.999);
          }
        }
      }),
      { numRuns: 20 },
    );
  });

  test("follows a machine that has become three times slower, and one that has become faster", () => {
    for (const factor of [3, 1 / 3]) {
      const random = seededRandom(6);
      const model = new StepModel(PRIOR);
      const learn = (steps: number, slowness: number) => {
        for (let step = 0; step < steps; step++) {
          const work = randomWork(random);
          model.record(work, slowness * durationMs(PRIOR, work));
        }
      };
      learn(2000, 1);
      learn(3000, factor);
      const work = randomWork(random);
      expect(model.predictMs(work) / durationMs(PRIOR, work)).toBeCloseTo(factor, 0);
    }
  });

  test("learns nothing about kinds of work that no step had, and loses nothing it knew of them", () => {
    const random = seededRandom(7);
    const truth = { ...PRIOR, attendedPairMs: 2e-5, sequenceMs: 0.3, kvTokenMs: 0.001 };
    const model = new StepModel(PRIOR);
    for (let step = 0; step < 3000; step++) {
      const work = randomWork(random);
      model.record(work, durationMs(truth, work));
    }
    // A night of decodes that are all alike says nothing about prefill.
    const decodes = Array.from({ length: 4 }, () => workOfChunk(100, 1)).reduce(addWork);
    for (let step = 0; step < 20_000; step++) model.record(decodes, durationMs(truth, decodes));
    const prefill = workOfChunk(500, 200);
    const ratio = model.predictMs(prefill) / durationMs(truth, prefill);
    expect(ratio).toBeGreaterThan(0.8);
    expect(ratio).toBeLessThan(1.2);
  });

  test("stays finite and not negative, whatever it is told", () => {
    const count = fc.integer({ min: 0, max: 100_000 });
    const work = fc.record({
      tokens: count,
      attendedPairs: count,
      sequences: count,
      kvTokens: count,
    });
    const duration = fc.oneof(
      fc.double(),
      fc.double({ min: 0, max: 1000 }),
      fc.constantFrom(0, -1, 1e-9, 1e9),
    );
    fc.assert(
      fc.property(fc.array(fc.tuple(work, duration), { maxLength: 60, size: "max" }), (steps) => {
        const model = new StepModel(PRIOR);
        for (const [done, lastedMs] of steps) {
          model.record(done, lastedMs);
          const values = Object.values(model.coefficients);
          assert(values.every((value) => Number.isFinite(value) && value >= 0));
        }
      }),
    );
  });

  test("a duration that no clock can have measured changes nothing", () => {
    const model = new StepModel(PRIOR);
    for (const lastedMs of [0, -1, 1e-9, Number.NaN, 1e163, Infinity]) {
      model.record(workOfChunk(0, 10), lastedMs);
    }
    expect(model.coefficients).toEqual(PRIOR);
  });
});

describe("predictPrefillMs", () => {
  test("sums the steps of a prefill that has them to itself", () => {
    const model = new StepModel(PRIOR);
    const prefill = { computedTokens: 0, tokens: 250, batchTokensMax: 100 };
    expect(predictPrefillMs(model, prefill)).toBeCloseTo(3 * 5 + 25);
    expect(predictPrefillMs(model, { ...prefill, tokens: 0 })).toBe(0);
  });

  test("what is computed already costs only as context", () => {
    const model = new StepModel({ ...PRIOR, attendedPairMs: 0.01 });
    const tail = { computedTokens: 100, tokens: 10, batchTokensMax: 100 };
    expect(predictPrefillMs(model, tail)).toBeCloseTo(5 + 1 + 0.01 * (10 * 100 + 55));
  });
});
