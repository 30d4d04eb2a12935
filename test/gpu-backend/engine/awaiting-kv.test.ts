import { describe, expect, test } from "vitest";
import type { Engine } from "../../../gpu-backend/engine/engine.ts";
import type { GenerateRequest } from "../../../gpu-backend/engine/generate-request.ts";
import {
  aGenerateRequest,
  anEngine,
  resultsOf,
  runStep,
  runToEnd,
  tokenRange,
} from "../../support/engine-builders.ts";

/** Submits a request with a prompt that nobody shares; the numbers of prompts differ. */
function add(engine: Engine, id: string, from: number, overrides: Partial<GenerateRequest> = {}) {
  const promptTokens = tokenRange(8, 1000 * from);
  return engine.submit(aGenerateRequest({ id, promptTokens, ...overrides }), 0);
}

describe("a request that awaits KV", () => {
  test("waits, is counted as waiting, and holds nobody up", () => {
    const engine = anEngine();
    add(engine, "a", 1, { awaitsKv: true });
    expect(engine.plan(0)).toEqual({ batch: undefined, events: [] });
    add(engine, "b", 2);
    expect(runStep(engine).tokensById).toEqual({ b: 8 });
    expect(engine.load()).toMatchObject({ queuedRequests: 1, runningRequests: 1, usedBlocks: 1 });
    runToEnd(engine);
    expect(engine.load()).toMatchObject({ queuedRequests: 1, runningRequests: 0, usedBlocks: 0 });
  });

  test("takes its place in the order of arrival when its KV is here, whenever that of others came", () => {
    const engine = anEngine({ sequencesMax: 1 });
    for (const [index, id] of ["a", "b", "c"].entries()) {
      add(engine, id, index, { awaitsKv: true, outputTokensMax: 1 });
    }
    add(engine, "d", 9, { outputTokensMax: 1 });
    engine.kvArrived("c");
    engine.kvArrived("a");
    expect(runStep(engine).tokensById).toEqual({ a: 8 });
    engine.kvArrived("b");
    const order = runToEnd(engine).flatMap((step) => Object.keys(step.tokensById));
    expect(order).toEqual(["b", "c", "d"]);
  });

  test("computes only what did not arrive", () => {
    const engine = anEngine();
    const promptTokens = tokenRange(40);
    engine.submit(aGenerateRequest({ id: "a", promptTokens, awaitsKv: true }), 0);
    expect(engine.load().queuedUncachedTokens).toBe(40);
    // What computes the same prompt meanwhile stands for the KV that arrives.
    engine.submit(aGenerateRequest({ id: "bringer", promptTokens, outputTokensMax: 1 }), 0);
    expect(runStep(engine).tokensById).toEqual({ bringer: 40 });
    engine.kvArrived("a");
    expect(engine.load().queuedUncachedTokens).toBe(8);
    expect(runStep(engine).tokensById).toEqual({ a: 8 });
  });

  test("ends at once when it is cancelled, also while a step is pending, and later KV is nobody's", () => {
    const engine = anEngine();
    add(engine, "a", 1, { awaitsKv: true });
    add(engine, "b", 2);
    const { batch } = engine.plan(0);
    if (batch === undefined) throw new Error("b is planned");
    expect(engine.cancel("a")).toMatchObject([{ kind: "finished", id: "a", reason: "cancelled" }]);
    engine.kvArrived("a");
    engine.checkInvariants();
    expect(engine.commit(batch, resultsOf(batch, [7]))).toMatchObject([{ kind: "token", id: "b" }]);
    runToEnd(engine);
    expect(engine.load()).toMatchObject({ queuedRequests: 0, usedBlocks: 0 });
  });

  test("is refused at its deadline, but not for a prefill that may never be", () => {
    const forecast = { predictMs: () => 1000 };
    const engine = anEngine({ forecast });
    add(engine, "running", 1, { outputTokensMax: 9 });
    runStep(engine);
    add(engine, "a", 2, { awaitsKv: true, firstTokenDeadlineAtMs: 50 });
    expect(runStep(engine, { nowMs: 40 }).events).toMatchObject([{ id: "running" }]);
    expect(runStep(engine, { nowMs: 50 }).events).toMatchObject([
      { kind: "refused", id: "a", reason: "deadline-passed" },
      { id: "running" },
    ]);
  });

  test("keeps its place among the live requests that a queue is bounded by", () => {
    const engine = anEngine({ sequencesMax: 1, queueMax: 1 });
    add(engine, "a", 1, { awaitsKv: true });
    add(engine, "b", 2, { awaitsKv: true });
    expect(add(engine, "c", 3)).toEqual([{ kind: "refused", id: "c", reason: "queue-full" }]);
  });
});
