import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  type ForecastRequest,
  forecastLatency,
  idleTtftMs,
  kvFitsQuickly,
} from "../../../src/forecast/latency.ts";
import type { ReplicaLoad } from "../../../src/replicas/replica-load.ts";
import type { StepCoefficients, StepWork } from "../../../src/step-cost/step-model.ts";
import {
  addWork,
  NO_WORK,
  predictPrefillMs,
  workOfChunk,
} from "../../../src/step-cost/step-model.ts";
import { BUSY_LOAD, IDLE_LOAD } from "./support/loads.ts";

const NO_WAITS = { slotMs: 0, kvMs: 0 };
const REQUEST: ForecastRequest = { promptTokens: 2000, cachedTokens: 0, outputTokens: 200 };

const costsMs = (step: StepCoefficients) => ({
  predictMs: (work: StepWork) =>
    step.fixedMs +
    step.tokenMs * work.tokens +
    step.attendedPairMs * work.attendedPairs +
    step.sequenceMs * work.sequences +
    step.kvTokenMs * work.kvTokens,
});

const forecastOf = (request: ForecastRequest, load: ReplicaLoad) =>
  forecastLatency(request, load, NO_WAITS);

describe("forecastLatency", () => {
  test("on an idle replica agrees with a walk through the steps of the prefill", () => {
    const request = fc.record({
      computedTokens: fc.nat(20_000),
      tokens: fc.integer({ min: 1, max: 60_000 }),
    });
    fc.assert(
      fc.property(request, ({ computedTokens, tokens }) => {
        const walkedMs = predictPrefillMs(costsMs(IDLE_LOAD.step), {
          computedTokens,
          tokens,
          batchTokensMax: IDLE_LOAD.batchTokensMax,
        });
        const { ttftMs } = forecastOf(
          { promptTokens: computedTokens + tokens, cachedTokens: computedTokens, outputTokens: 1 },
          IDLE_LOAD,
        );
        expect(ttftMs / walkedMs).toBeGreaterThan(0.97);
        expect(ttftMs / walkedMs).toBeLessThan(1.03);
      }),
    );
  });

  test("on a busy replica agrees with a walk through the steps that come", () => {
    const { step, batchTokensMax, sequences } = BUSY_LOAD;
    const context = BUSY_LOAD.kvTokens / sequences;
    for (const promptTokens of [500, 5000, 30_000]) {
      let queuedTokens = BUSY_LOAD.prefillTokens;
      let ownTokens = 0;
      let walkedMs = 0;
      while (ownTokens < promptTokens) {
        let work = NO_WORK;
        for (let i = 0; i < sequences; i++) work = addWork(work, workOfChunk(context, 1));
        let roomTokens = batchTokensMax - sequences;
        const others = Math.min(queuedTokens, roomTokens);
        queuedTokens -= others;
        roomTokens -= others;
        const pairs = (others * BUSY_LOAD.prefillPairs) / BUSY_LOAD.prefillTokens;
        work = addWork(work, { ...NO_WORK, tokens: others, attendedPairs: pairs });
        const own = Math.min(promptTokens - ownTokens, roomTokens);
        if (own > 0) work = addWork(work, workOfChunk(ownTokens, own));
        ownTokens += own;
        walkedMs += costsMs(step).predictMs(work);
      }
      const { ttftMs } = forecastOf({ promptTokens, cachedTokens: 0, outputTokens: 1 }, BUSY_LOAD);
      const boundaryMs = ttftMs - walkedMs;
      expect(boundaryMs).toBeGreaterThan(0);
      expect(boundaryMs).toBeLessThan(0.05 * walkedMs + step.fixedMs + 5);
    }
  });

  test("decodes take twice as long beside prefill that has half of the time", () => {
    const load = { ...BUSY_LOAD, prefillTokens: 0, prefillPairs: 0, prefillTimeRatio: 0.5 };
    const without = forecastOf(REQUEST, { ...load, prefillTimeRatio: 0 });
    expect(forecastOf(REQUEST, load).tpotMs).toBeCloseTo(2 * without.tpotMs, 9);
  });

  test("waits for slots and KV are part of the time to the first token and of nothing else", () => {
    const without = forecastOf(REQUEST, BUSY_LOAD);
    const waiting = forecastLatency(REQUEST, BUSY_LOAD, { slotMs: 30, kvMs: 12 });
    expect(waiting).toEqual({ ...without, ttftMs: without.ttftMs + 42 });
  });

  test("a prefix that is cached shortens the first token, and a wholly cached prompt still has a step", () => {
    const halfCached = forecastOf({ ...REQUEST, cachedTokens: 1000 }, BUSY_LOAD);
    const wholly = forecastOf({ ...REQUEST, cachedTokens: 2000 }, IDLE_LOAD);
    expect(halfCached.ttftMs).toBeLessThan(forecastOf(REQUEST, BUSY_LOAD).ttftMs);
    expect(wholly.ttftMs).toBeGreaterThan(IDLE_LOAD.step.fixedMs);
  });

  test("more of anything on the replica never makes a forecast shorter", () => {
    const amount = fc.record({
      prefillTokens: fc.nat(50_000),
      prefillPairs: fc.nat(100_000_000),
      sequences: fc.nat(300),
      kvTokens: fc.nat(1_000_000),
      prefillTimeRatio: fc.double({ min: 0, max: 1, noNaN: true }),
    });
    const key = fc.constantFrom(
      "prefillTokens",
      "prefillPairs",
      "sequences",
      "kvTokens",
      "prefillTimeRatio",
    );
    fc.assert(
      fc.property(amount, amount, key, (some, other, which) => {
        const less = { ...IDLE_LOAD, ...some };
        const more = { ...less, [which]: Math.max(some[which], other[which]) };
        const before = forecastOf(REQUEST, less);
        const after = forecastOf(REQUEST, more);
        expect(after.ttftMs).toBeGreaterThanOrEqual(before.ttftMs - 1e-9);
        expect(after.tpotMs).toBeGreaterThanOrEqual(before.tpotMs - 1e-9);
        expect(Number.isFinite(after.tpotMs)).toBe(true);
      }),
    );
  });

  test("a replica that is twice as slow takes twice as long in everything", () => {
    const nominal = forecastOf(REQUEST, BUSY_LOAD);
    const slow = forecastOf(REQUEST, { ...BUSY_LOAD, speedRatio: 2, prefillTimeRatio: 0.4 });
    expect(slow.ttftMs).toBeCloseTo(2 * nominal.ttftMs, 9);
    expect(slow.longestStepMs).toBeCloseTo(2 * nominal.longestStepMs, 9);
  });

  test("a backlog is before a request's first token and before the residents' next ones, not among its own", () => {
    const load = { ...BUSY_LOAD, prefillTimeRatio: 0 };
    const calm = forecastOf(REQUEST, { ...load, prefillTokens: 0, prefillPairs: 0 });
    const behind = forecastOf(REQUEST, load);
    expect(behind.ttftMs).toBeGreaterThan(calm.ttftMs);
    expect(behind.residentsTpotMs).toBeGreaterThan(calm.residentsTpotMs);
    expect(behind.tpotMs).toBe(calm.tpotMs);
  });

  test("residents see the prefill that is known spread over what they have left, or their steady share", () => {
    const { step, sequences, kvTokens } = BUSY_LOAD;
    const prompts = { ...BUSY_LOAD, prefillTimeRatio: 0, prefillTokens: 0, prefillPairs: 0 };
    const stallMs = (leftTokens: number) => {
      const load = { ...prompts, kvTokensExpected: kvTokens + sequences * leftTokens };
      const { residentsTpotMs, tpotMs } = forecastOf(REQUEST, load);
      return residentsTpotMs - tpotMs;
    };
    const prefillMs = 2000 * step.tokenMs + (2000 * 2001 * step.attendedPairMs) / 2;
    expect(stallMs(200)).toBeCloseTo(prefillMs / 200, 9);
    expect(stallMs(1000)).toBeCloseTo(prefillMs / 1000, 9);
    // Whoever has next to nothing left is gone before it could be hurt.
    expect(stallMs(1)).toBeCloseTo(prefillMs / 64, 9);
    const steady = forecastOf(REQUEST, { ...prompts, prefillTimeRatio: 0.8 });
    expect(steady.residentsTpotMs).toBe(steady.tpotMs);
  });

  test("the longest step has as much prefill as there is, or as a step holds", () => {
    const load = { ...IDLE_LOAD, batchTokensMax: 1000 };
    const stepMs = (promptTokens: number) =>
      forecastOf({ promptTokens, cachedTokens: 0, outputTokens: 0 }, load).longestStepMs;
    const { step } = load;
    expect(stepMs(500)).toBeGreaterThan(step.fixedMs + 500 * step.tokenMs);
    expect(stepMs(100_000)).toBeGreaterThan(step.fixedMs + 1000 * step.tokenMs);
    // Attention to what is cached grows with the prompt; the tokens of a step do not.
    expect(stepMs(100_000)).toBeLessThan(
      step.fixedMs + 2 * 1000 * (step.tokenMs + 100_000 * step.attendedPairMs),
    );
  });

  test("an engine that keeps TBT opens no gap, and takes longer to the first token for it", () => {
    const careless = forecastOf(REQUEST, BUSY_LOAD);
    const careful = forecastOf(REQUEST, { ...BUSY_LOAD, keptTbtMs: 30 });
    expect(careless.longestStepMs).toBeGreaterThan(30);
    expect(careful.longestStepMs).toBeLessThan(30);
    expect(careful.ttftMs).toBeGreaterThan(careless.ttftMs);
  });

  test("a gap that an engine keeps bounds every mean gap, unless decodes alone are longer", () => {
    const load = { ...BUSY_LOAD, prefillTimeRatio: 0.9 };
    const decodesMs = forecastOf(REQUEST, { ...load, prefillTimeRatio: 0 }).tpotMs;
    const gap = fc.double({ min: 1, max: 200, noNaN: true });
    fc.assert(
      fc.property(gap, gap, (one, other) => {
        const kept = forecastOf(REQUEST, { ...load, keptTbtMs: Math.min(one, other) });
        const looser = forecastOf(REQUEST, { ...load, keptTbtMs: Math.max(one, other) });
        for (const key of ["tpotMs", "residentsTpotMs"] as const) {
          expect(kept[key]).toBeLessThanOrEqual(Math.max(decodesMs, Math.min(one, other)));
          expect(kept[key]).toBeLessThanOrEqual(looser[key]);
          expect(looser[key]).toBeLessThanOrEqual(forecastOf(REQUEST, load)[key]);
        }
      }),
    );
  });

  test("a TBT target that decodes alone miss holds no prefill back", () => {
    const missed = forecastOf(REQUEST, { ...BUSY_LOAD, keptTbtMs: 2 });
    expect(missed.ttftMs).toBe(forecastOf(REQUEST, BUSY_LOAD).ttftMs);
  });

  test("an idle replica is the least that a request can have", () => {
    expect(idleTtftMs(REQUEST, BUSY_LOAD)).toBeCloseTo(forecastOf(REQUEST, IDLE_LOAD).ttftMs, 9);
    expect(idleTtftMs(REQUEST, BUSY_LOAD)).toBeLessThan(forecastOf(REQUEST, BUSY_LOAD).ttftMs);
  });

  test("KV fits quickly only while everybody's whole output fits at once", () => {
    const load = { ...BUSY_LOAD, kvTokensMax: 142_200 };
    const forecast = forecastOf(REQUEST, load);
    expect(forecast.kvPeakTokens).toBe(142_200);
    expect(kvFitsQuickly(forecast, load, 1)).toBe(true);
    expect(kvFitsQuickly(forecast, load, 0.99)).toBe(false);
  });
});
