import { describe, expect, test } from "vitest";
import type { Engine } from "../../../gpu-backend/engine/engine.ts";
import { StepModel } from "../../../src/step-cost/step-model.ts";
import {
  aGenerateRequest,
  anEngine,
  runStep,
  runToEnd,
  tokenRange,
} from "../../support/engine-builders.ts";

/** 10 ms a step, 1 ms a token. */
const FORECAST = new StepModel({
  fixedMs: 10,
  tokenMs: 1,
  attendedPairMs: 0,
  sequenceMs: 0,
  kvTokenMs: 0,
});

const aForeseeingEngine = () =>
  anEngine({ forecast: FORECAST, batchTokensMax: 100, blockCount: 200 });

/** A request of so many tokens, from 5000 on unless said, whose first is due at this instant. */
function add(
  engine: Engine,
  id: string,
  due: { readonly tokens: number; readonly atMs: number; readonly from?: number },
): void {
  const promptTokens = tokenRange(due.tokens, due.from ?? 5000);
  engine.submit(aGenerateRequest({ id, promptTokens, firstTokenDeadlineAtMs: due.atMs }), 0);
}

const refusalsOf = (engine: Engine, nowMs: number) =>
  runStep(engine, { nowMs }).events.filter((event) => event.kind === "refused");

describe("a request that must be late", () => {
  test("is refused before anything is computed for it", () => {
    const engine = aForeseeingEngine();
    engine.submit(aGenerateRequest({ id: "other", outputTokensMax: 50 }), 0);
    runStep(engine);
    // Three steps of 100, 100 and 50 tokens: 280 ms.
    add(engine, "late", { tokens: 250, atMs: 279 });
    add(engine, "in time", { tokens: 250, atMs: 280, from: 9000 });
    expect(refusalsOf(engine, 0)).toEqual([
      { kind: "refused", id: "late", reason: "deadline-passed" },
    ]);
    expect(engine.counters.refused["deadline-passed"]).toBe(1);
  });

  test("is not refused while it could be in time had it the engine to itself", () => {
    const engine = anEngine({ forecast: FORECAST, sequencesMax: 1, batchTokensMax: 100 });
    engine.submit(aGenerateRequest({ id: "other", outputTokensMax: 50 }), 0);
    runStep(engine);
    add(engine, "waiting", { tokens: 90, atMs: 200 });
    expect(refusalsOf(engine, 99)).toEqual([]);
    expect(refusalsOf(engine, 101)).toMatchObject([{ id: "waiting" }]);
  });

  test("is not refused for what it will find cached, or what another is about to compute for it", () => {
    const engine = aForeseeingEngine();
    add(engine, "first", { tokens: 200, atMs: 1000 });
    runStep(engine);
    // All but the last 8 of its tokens are computed by the first one.
    add(engine, "same", { tokens: 200, atMs: 30 });
    add(engine, "other", { tokens: 200, atMs: 30, from: 9000 });
    expect(refusalsOf(engine, 0)).toMatchObject([{ id: "other" }]);
    runToEnd(engine);
    add(engine, "again", { tokens: 200, atMs: 30 });
    runStep(engine, { nowMs: 0 });
    expect(engine.load().runningRequests).toBe(1);
  });

  test("is not refused once it has started, even if it was preempted since", () => {
    const engine = anEngine({ forecast: FORECAST, blockTokens: 4, blockCount: 7, sequencesMax: 2 });
    for (const [id, tokens] of [
      ["a", 12],
      ["b", 7],
    ] as const) {
      const promptTokens = tokenRange(tokens, tokens * 1000);
      engine.submit(
        aGenerateRequest({ id, promptTokens, outputTokensMax: 12, firstTokenDeadlineAtMs: 100 }),
        0,
      );
    }
    while (engine.counters.preemptions === 0) runStep(engine, { nowMs: 0 });
    expect(refusalsOf(engine, 99)).toEqual([]);
    expect(refusalsOf(engine, 200)).toEqual([]);
  });

  test("is served now and then by an idle engine, so that a forecast too black is found out", () => {
    const engine = aForeseeingEngine();
    const started: number[] = [];
    for (let request = 1; request <= 20; request++) {
      add(engine, `${request}`, { tokens: 90, atMs: 50, from: 100 * request });
      if (refusalsOf(engine, 0).length === 0) {
        started.push(request);
        runToEnd(engine);
      }
    }
    expect(started).toEqual([8, 16]);
  });

  test("without a forecast is refused only when it is late already", () => {
    const engine = anEngine();
    add(engine, "a", { tokens: 400, atMs: 1 });
    expect(refusalsOf(engine, 0)).toEqual([]);
    add(engine, "b", { tokens: 400, atMs: 1 });
    expect(refusalsOf(engine, 1)).toMatchObject([{ id: "b" }]);
  });
});
