import { describe, expect, test } from "vitest";
import type { RowResult } from "../../../gpu-backend/engine/row-result.ts";
import {
  aGenerateRequest,
  anEngine,
  resultsOf,
  runStep,
  runToEnd,
  tokenRange,
} from "../../support/engine-builders.ts";

describe("submit()", () => {
  test("a prompt that fills the context is refused, one token less is answered", () => {
    const engine = anEngine({ contextTokens: 64 });
    expect(engine.submit(aGenerateRequest({ promptTokens: tokenRange(64) }), 0)).toEqual([
      { kind: "refused", id: "a", reason: "prompt-too-long" },
    ]);
    engine.submit(aGenerateRequest({ promptTokens: tokenRange(63) }), 0);
    expect(runToEnd(engine).flatMap((step) => step.events)).toEqual([
      { kind: "token", id: "a", tokenId: 7 },
      {
        kind: "finished",
        id: "a",
        reason: "length",
        promptTokens: 63,
        cachedTokens: 0,
        outputTokens: 1,
      },
    ]);
  });

  test("a request that never fits the pool is refused at once, and a small one behind it runs", () => {
    const engine = anEngine({ blockCount: 4 });
    expect(engine.submit(aGenerateRequest({ promptTokens: tokenRange(64) }), 0)).toEqual([
      { kind: "refused", id: "a", reason: "kv-too-small" },
    ]);
    engine.submit(aGenerateRequest({ id: "b" }), 0);
    expect(runStep(engine).tokensById).toEqual({ b: 8 });
  });

  test("a full queue refuses, and has room again when a request has ended", () => {
    const engine = anEngine({ sequencesMax: 1, queueMax: 1 });
    engine.submit(aGenerateRequest({ id: "a", outputTokensMax: 1 }), 0);
    engine.submit(aGenerateRequest({ id: "b" }), 0);
    expect(engine.submit(aGenerateRequest({ id: "c" }), 0)).toEqual([
      { kind: "refused", id: "c", reason: "queue-full" },
    ]);
    runStep(engine);
    expect(engine.submit(aGenerateRequest({ id: "c" }), 0)).toEqual([]);
    expect(engine.load()).toMatchObject({ queuedRequests: 2, runningRequests: 0 });
  });

  test("a burst that finds free places to run needs no queue", () => {
    const engine = anEngine({ sequencesMax: 3, queueMax: 0 });
    const events = ["a", "b", "c", "d"].map((id) => engine.submit(aGenerateRequest({ id }), 0));
    expect(events.flat()).toEqual([{ kind: "refused", id: "d", reason: "queue-full" }]);
  });

  test("a draining engine refuses new requests and finishes those it has", () => {
    const engine = anEngine();
    engine.submit(aGenerateRequest({ id: "a" }), 0);
    engine.drain();
    expect(engine.submit(aGenerateRequest({ id: "b" }), 0)).toEqual([
      { kind: "refused", id: "b", reason: "draining" },
    ]);
    const last = runToEnd(engine).at(-1);
    expect(last?.events.at(-1)).toMatchObject({ kind: "finished", id: "a", reason: "length" });
  });

  test("an id that is live, an empty prompt and an empty output are faults of the caller", () => {
    const engine = anEngine();
    engine.submit(aGenerateRequest(), 0);
    expect(() => engine.submit(aGenerateRequest(), 0)).toThrow("live already");
    expect(() => engine.submit(aGenerateRequest({ id: "b", promptTokens: [] }), 0)).toThrow(
      "one token",
    );
    expect(() => engine.submit(aGenerateRequest({ id: "b", outputTokensMax: 0 }), 0)).toThrow(
      "one token",
    );
    engine.checkInvariants();
    expect(engine.load().queuedRequests).toBe(1);
  });
});

describe("first-token deadlines", () => {
  test("a request whose deadline has passed is refused before anything is computed for it", () => {
    const engine = anEngine();
    engine.submit(aGenerateRequest({ firstTokenDeadlineAtMs: 100 }), 0);
    expect(engine.plan(100)).toEqual({
      batch: undefined,
      events: [{ kind: "refused", id: "a", reason: "deadline-passed" }],
    });
    expect(engine.counters.refused["deadline-passed"]).toBe(1);
    expect(engine.submit(aGenerateRequest({ firstTokenDeadlineAtMs: 100 }), 100)).toEqual([
      { kind: "refused", id: "a", reason: "deadline-passed" },
    ]);
  });

  test("a request that started in time is served to its end", () => {
    const engine = anEngine({ batchTokensMax: 8, sequencesMax: 1 });
    const promptTokens = tokenRange(20);
    engine.submit(aGenerateRequest({ promptTokens, firstTokenDeadlineAtMs: 100 }), 0);
    runStep(engine, { nowMs: 99 });
    expect(runStep(engine, { nowMs: 200 }).tokensById).toEqual({ a: 8 });
  });

  test("a request that waits again after a preemption is not refused for its deadline", () => {
    const engine = anEngine({ blockTokens: 4, blockCount: 5 });
    const promptTokens = tokenRange(8);
    engine.submit(aGenerateRequest({ id: "a", promptTokens, outputTokensMax: 9 }), 0);
    const other = { promptTokens: tokenRange(4, 5000), outputTokensMax: 9 };
    engine.submit(aGenerateRequest({ id: "b", ...other, firstTokenDeadlineAtMs: 100 }), 0);
    while (engine.counters.preemptions === 0) runStep(engine, { nowMs: 50 });
    expect(engine.load()).toMatchObject({ queuedRequests: 1, runningRequests: 1 });
    const events = [];
    while (engine.load().queuedRequests + engine.load().runningRequests > 0) {
      events.push(...runStep(engine, { nowMs: 200 }).events);
    }
    expect(events.filter((event) => event.kind === "refused")).toEqual([]);
    expect(engine.counters.finished.length).toBe(2);
  });

  test("a deadline of a waiting request is kept while others run", () => {
    const engine = anEngine({ sequencesMax: 1 });
    engine.submit(aGenerateRequest({ id: "a" }), 0);
    runStep(engine);
    engine.submit(aGenerateRequest({ id: "b", firstTokenDeadlineAtMs: 10 }), 0);
    expect(runStep(engine, { nowMs: 10 }).events).toEqual([
      { kind: "refused", id: "b", reason: "deadline-passed" },
      { kind: "token", id: "a", tokenId: 7 },
    ]);
  });
});

describe("cancel()", () => {
  test("a waiting request ends at once", () => {
    const engine = anEngine();
    engine.submit(aGenerateRequest(), 0);
    expect(engine.cancel("a")).toEqual([
      {
        kind: "finished",
        id: "a",
        reason: "cancelled",
        promptTokens: 8,
        cachedTokens: 0,
        outputTokens: 0,
      },
    ]);
    expect(engine.plan(0).batch).toBeUndefined();
  });

  test("a running request between two steps gives its blocks back at once", () => {
    const engine = anEngine();
    engine.submit(aGenerateRequest(), 0);
    runStep(engine);
    expect(engine.load().usedBlocks).toBe(1);
    expect(engine.cancel("a")).toMatchObject([{ reason: "cancelled", outputTokens: 1 }]);
    expect(engine.load().usedBlocks).toBe(0);
    expect(engine.cancel("a")).toEqual([]);
  });

  test("a request of the pending step keeps its blocks until the commit, and its late token is ignored", () => {
    const engine = anEngine({ sequencesMax: 1 });
    engine.submit(aGenerateRequest({ id: "a" }), 0);
    engine.submit(aGenerateRequest({ id: "b" }), 0);
    const { batch } = engine.plan(0);
    if (batch === undefined) throw new Error("A request is planned");
    expect(engine.cancel("a")).toEqual([]);
    expect(engine.cancel("a")).toEqual([]);
    expect(engine.load()).toMatchObject({ usedBlocks: 1, runningRequests: 1 });
    expect(engine.commit(batch, resultsOf(batch, [9]))).toMatchObject([
      { kind: "finished", id: "a", reason: "cancelled", outputTokens: 0 },
    ]);
    expect(engine.load().usedBlocks).toBe(0);
    expect(runStep(engine).tokensById).toEqual({ b: 8 });
    expect(engine.counters.generatedTokens).toBe(1);
  });

  test("a request of a step that is rolled back ends with the rollback", () => {
    const engine = anEngine();
    engine.submit(aGenerateRequest(), 0);
    const { batch } = engine.plan(0);
    if (batch === undefined) throw new Error("A request is planned");
    engine.cancel("a");
    expect(engine.rollback(batch)).toMatchObject([{ kind: "finished", reason: "cancelled" }]);
    expect(engine.load()).toMatchObject({ usedBlocks: 0, runningRequests: 0 });
    engine.checkInvariants();
  });

  test("an unknown id is nobody's", () => {
    expect(anEngine().cancel("a")).toEqual([]);
  });
});

/** An engine with a pending step of two requests, a and b. */
function pendingStepOfTwo() {
  const engine = anEngine();
  engine.submit(aGenerateRequest({ id: "a", promptTokens: tokenRange(40) }), 0);
  engine.submit(aGenerateRequest({ id: "b" }), 0);
  const { batch } = engine.plan(0);
  if (batch === undefined) throw new Error("Requests are planned");
  return { engine, batch };
}

/** A poisoned row's result. */
const POISONED: RowResult = { kind: "failed", message: "Logits are not finite" };

describe("a poisoned row", () => {
  test("ends its request and leaves its batch mates alone", () => {
    const { engine, batch } = pendingStepOfTwo();
    const [, second] = resultsOf(batch, [8, 9]);
    if (second === undefined) throw new Error("Two rows are planned");
    expect(engine.commit(batch, [POISONED, second])).toEqual([
      { kind: "failed", id: "a", message: "Logits are not finite" },
      { kind: "token", id: "b", tokenId: 9 },
    ]);
    expect(engine.counters.failed).toBe(1);
    engine.checkInvariants();
  });

  test("what a failed request computed is never a prefix hit again", () => {
    const engine = anEngine();
    engine.submit(aGenerateRequest({ id: "a", promptTokens: tokenRange(40) }), 0);
    runStep(engine);
    const { batch } = engine.plan(0);
    if (batch === undefined) throw new Error("A request is planned");
    expect(engine.commit(batch, [POISONED])).toMatchObject([{ kind: "failed" }]);
    engine.submit(aGenerateRequest({ id: "b", promptTokens: tokenRange(40) }), 0);
    expect(runStep(engine).tokensById).toEqual({ b: 40 });
  });

  test("outranks a cancel", () => {
    const { engine, batch } = pendingStepOfTwo();
    engine.cancel("a");
    const [, second] = resultsOf(batch, [8, 9]);
    if (second === undefined) throw new Error("Two rows are planned");
    expect(engine.commit(batch, [POISONED, second])[0]).toMatchObject({ kind: "failed", id: "a" });
  });
});

describe("commit() and rollback()", () => {
  test("a step that failed is planned again with the same tokens and blocks", () => {
    const engine = anEngine({ batchTokensMax: 12 });
    engine.submit(aGenerateRequest({ id: "a" }), 0);
    engine.submit(aGenerateRequest({ id: "b", promptTokens: tokenRange(30) }), 0);
    const first = engine.plan(0).batch;
    if (first === undefined) throw new Error("Requests are planned");
    expect(engine.rollback(first)).toEqual([]);
    engine.checkInvariants();
    expect(engine.counters).toMatchObject({ computedTokens: 0, promptTokens: 0 });
    expect(engine.plan(0).batch).toEqual(first);
  });

  test("a rolled back step offers no block to the prefix cache", () => {
    const engine = anEngine();
    engine.submit(aGenerateRequest({ id: "a", promptTokens: tokenRange(40) }), 0);
    const { batch } = engine.plan(0);
    if (batch === undefined) throw new Error("A request is planned");
    engine.rollback(batch);
    engine.cancel("a");
    engine.submit(aGenerateRequest({ id: "b", promptTokens: tokenRange(40) }), 0);
    expect(runStep(engine).tokensById).toEqual({ b: 40 });
  });

  test("a step is pending until it is committed or rolled back, and only once", () => {
    const engine = anEngine();
    engine.submit(aGenerateRequest(), 0);
    const { batch } = engine.plan(0);
    if (batch === undefined) throw new Error("A request is planned");
    expect(() => engine.plan(0)).toThrow("pending");
    expect(() => engine.commit({ ...batch }, resultsOf(batch, [1]))).toThrow("pending");
    engine.commit(batch, resultsOf(batch, [1]));
    expect(() => engine.commit(batch, resultsOf(batch, [1]))).toThrow("pending");
    expect(() => engine.rollback(batch)).toThrow("pending");
  });

  test("a commit with too few, too many or missing results throws and applies nothing", () => {
    const engine = anEngine();
    engine.submit(aGenerateRequest({ id: "a" }), 0);
    engine.submit(aGenerateRequest({ id: "b" }), 0);
    const { batch } = engine.plan(0);
    if (batch === undefined) throw new Error("Requests are planned");
    const [first, second] = resultsOf(batch, [1, 2]);
    if (first === undefined || second === undefined) throw new Error("Two rows are planned");
    for (const results of [[first], [first, second, second]]) {
      expect(() => engine.commit(batch, results)).toThrow("one result");
    }
    expect(() => engine.commit(batch, [first, { kind: "computed" }])).toThrow("its token");
    expect(engine.counters.computedTokens).toBe(0);
    expect(engine.commit(batch, resultsOf(batch, [1, 2]))).toHaveLength(2);
  });

  test("an idle engine plans nothing", () => {
    expect(anEngine().plan(0)).toEqual({ batch: undefined, events: [] });
  });
});

describe("load()", () => {
  test("tells what waits, runs, is held and is still to be prefilled", () => {
    const engine = anEngine({ batchTokensMax: 32, sequencesMax: 2 });
    engine.submit(aGenerateRequest({ id: "a", promptTokens: tokenRange(50), tbtTargetMs: 60 }), 0);
    engine.submit(aGenerateRequest({ id: "b", promptTokens: tokenRange(70), tbtTargetMs: 40 }), 0);
    expect(engine.load()).toEqual({
      queuedRequests: 2,
      runningRequests: 0,
      usedBlocks: 0,
      blockCount: 64,
      blockTokens: 16,
      queuedUncachedTokens: 120,
      queuedAttendedPairs: (50 * 51) / 2 + (70 * 71) / 2,
      runningKvTokens: 0,
      waitingKvTokens: 120,
      tightestTbtMs: 40,
    });
    runStep(engine);
    expect(engine.load()).toMatchObject({
      queuedRequests: 1,
      runningRequests: 1,
      usedBlocks: 4,
      queuedUncachedTokens: 50 - 32 + 70,
      queuedAttendedPairs: (50 * 51) / 2 - (32 * 33) / 2 + (70 * 71) / 2,
      runningKvTokens: 32,
      waitingKvTokens: 70,
    });
    // Two blocks of the same prefix are cached by now, so a request that comes now expects them.
    engine.submit(aGenerateRequest({ id: "c", promptTokens: tokenRange(60) }), 0);
    expect(engine.load().queuedUncachedTokens).toBe(50 - 32 + 70 + 60 - 32);
    runToEnd(engine);
    expect(engine.load()).toMatchObject({
      queuedUncachedTokens: 0,
      queuedAttendedPairs: 0,
      runningKvTokens: 0,
      waitingKvTokens: 0,
      tightestTbtMs: undefined,
    });
  });

  test("a decode has nothing to prefill", () => {
    const engine = anEngine();
    engine.submit(aGenerateRequest(), 0);
    runStep(engine);
    expect(engine.load()).toMatchObject({ runningRequests: 1, queuedUncachedTokens: 0 });
  });
});
