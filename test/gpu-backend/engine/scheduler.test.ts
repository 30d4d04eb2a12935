import { describe, expect, test } from "vitest";
import type { Engine } from "../../../gpu-backend/engine/engine.ts";
import { KvCache } from "../../../gpu-backend/engine/kv-cache/kv-cache.ts";
import { compareArrival, Scheduler } from "../../../gpu-backend/engine/scheduler.ts";
import {
  aGenerateRequest,
  anEngine,
  runStep,
  runToEnd,
  tokenRange,
} from "../../support/engine-builders.ts";

/** Submits requests of these prompt lengths that share nothing, named a, b, c … */
function submitPrompts(engine: Engine, lengths: readonly number[], outputTokensMax = 4): void {
  for (const [index, length] of lengths.entries()) {
    const promptTokens = tokenRange(length, 1000 * (index + 1));
    const id = String.fromCodePoint(97 + index);
    engine.submit(aGenerateRequest({ id, promptTokens, outputTokensMax }), 0);
  }
}

describe("the token budget", () => {
  test("is handed out in the order of arrival, the last prompt in chunks", () => {
    const engine = anEngine({ blockCount: 200, contextTokens: 2048 });
    submitPrompts(engine, [800, 800, 10, 10]);
    expect(runStep(engine).tokensById).toEqual({ a: 800, b: 224 });
    expect(runStep(engine).tokensById).toEqual({ a: 1, b: 576, c: 10, d: 10 });
    expect(runStep(engine).tokensById).toEqual({ a: 1, b: 1, c: 1, d: 1 });
  });

  test("goes to decodes before it goes to a later prompt", () => {
    const engine = anEngine({ batchTokensMax: 10 });
    submitPrompts(engine, [10, 25]);
    runStep(engine);
    expect(runStep(engine).tokensById).toEqual({ a: 1, b: 9 });
    expect(runStep(engine).tokensById).toEqual({ a: 1, b: 9 });
    expect(runStep(engine).tokensById).toEqual({ a: 1, b: 7 });
  });

  test("a second request is computed beside a first one's decodes, and neither waits for the other", () => {
    const engine = anEngine({ blockCount: 100, contextTokens: 1024 });
    submitPrompts(engine, [512], 3);
    expect(runStep(engine).tokensById).toEqual({ a: 512 });
    engine.submit(aGenerateRequest({ id: "b", promptTokens: tokenRange(512, 9000) }), 0);
    expect(runStep(engine).tokensById).toEqual({ a: 1, b: 512 });
    expect(runStep(engine).tokensById).toEqual({ a: 1, b: 1 });
  });

  test("a chunk asks for logits only if it ends the known tokens", () => {
    const engine = anEngine({ batchTokensMax: 20, sequencesMax: 1 });
    submitPrompts(engine, [40], 2);
    const rows = runToEnd(engine).map((step) => step.batch?.rows[0]);
    expect(rows).toMatchObject([
      { startPosition: 0, output: "none", outputIndex: 0, blockTable: Int32Array.of(0, 1) },
      { startPosition: 20, output: "last", outputIndex: 0, blockTable: Int32Array.of(0, 1, 2) },
      { startPosition: 40, output: "last", outputIndex: 1, tokens: Int32Array.of(7) },
    ]);
  });

  test("must have a token for every sequence that can run", () => {
    const kvCache = new KvCache({ blockCount: 4, blockTokens: 16, prefixCache: true });
    const options = {
      batchTokensMax: 3,
      sequencesMax: 4,
      chunkedPrefill: true,
      compareUrgency: compareArrival,
      keepsTbt: false,
      kvAdmission: "known" as const,
    };
    expect(() => new Scheduler(kvCache, options)).toThrow("a token for every sequence");
  });
});

describe("admission", () => {
  test("no more sequences run than may, and the next one follows when one ends", () => {
    const engine = anEngine({ sequencesMax: 2 });
    submitPrompts(engine, [4, 4, 4], 2);
    expect(runStep(engine).tokensById).toEqual({ a: 4, b: 4 });
    expect(runStep(engine).tokensById).toEqual({ a: 1, b: 1 });
    expect(runStep(engine).tokensById).toEqual({ c: 4 });
  });

  test("a prompt that does not fit whole is not begun, and nobody jumps ahead of it", () => {
    const engine = anEngine({ blockTokens: 4, blockCount: 6 });
    submitPrompts(engine, [16, 12, 4], 2);
    expect(runStep(engine).tokensById).toEqual({ a: 16 });
    expect(runStep(engine).tokensById).toEqual({ a: 1 });
    expect(runStep(engine).tokensById).toEqual({ b: 12, c: 4 });
  });

  test("leaves a block for each sequence that runs to grow by", () => {
    const engine = anEngine({ blockTokens: 4, blockCount: 4 });
    submitPrompts(engine, [8, 8], 2);
    expect(runStep(engine).tokensById).toEqual({ a: 8 });
    const roomy = anEngine({ blockTokens: 4, blockCount: 5 });
    submitPrompts(roomy, [8, 8], 2);
    expect(runStep(roomy).tokensById).toEqual({ a: 8, b: 8 });
  });

  test("the largest request starts when nobody runs, since then nothing is held back", () => {
    const engine = anEngine({ blockTokens: 4, blockCount: 4 });
    submitPrompts(engine, [15], 1);
    expect(runStep(engine).tokensById).toEqual({ a: 15 });
  });

  test("a prefill that has begun is never preempted by a later admission", () => {
    const engine = anEngine({ blockTokens: 4, blockCount: 12, batchTokensMax: 8 });
    submitPrompts(engine, [24, 24], 1);
    const steps = runToEnd(engine);
    expect(engine.counters.preemptions).toBe(0);
    expect(steps.reduce((sum, step) => sum + (step.batch?.totalTokens ?? 0), 0)).toBe(48);
  });
});

/** Two sequences, a and b, that nearly fill the pool with their prompts and then grow. */
function crowded(): Engine {
  const engine = anEngine({ blockTokens: 4, blockCount: 7, batchTokensMax: 16, sequencesMax: 3 });
  submitPrompts(engine, [12, 7], 12);
  return engine;
}

describe("preemption", () => {
  test("takes the blocks of the sequence that came last, and the others go on", () => {
    const engine = crowded();
    let step = runStep(engine);
    while (engine.counters.preemptions === 0) step = runStep(engine);
    expect(step.tokensById).toEqual({ a: 1 });
    expect(engine.load()).toMatchObject({ queuedRequests: 1, runningRequests: 1 });
    const ends = runToEnd(engine).flatMap((next) => next.events);
    expect(ends.filter((event) => event.kind === "finished")).toMatchObject([
      { id: "a", reason: "length", outputTokens: 12 },
      { id: "b", reason: "length", outputTokens: 12 },
    ]);
    expect(engine.counters.generatedTokens).toBe(24);
  });

  test("nobody is admitted in a step that preempted, not even what is more urgent than the victim", () => {
    const ranks = ["a", "late", "b"];
    const engine = anEngine({
      blockTokens: 4,
      blockCount: 7,
      batchTokensMax: 32,
      sequencesMax: 2,
      compareUrgency: (a, b) => ranks.indexOf(a.id) - ranks.indexOf(b.id),
    });
    submitPrompts(engine, [12, 7], 12);
    let step = runStep(engine);
    expect(step.tokensById).toEqual({ a: 12, b: 7 });
    engine.submit(aGenerateRequest({ id: "late", promptTokens: [1], outputTokensMax: 1 }), 0);
    while (engine.counters.preemptions === 0) step = runStep(engine);
    expect(step.tokensById).toEqual({ a: 1 });
    expect(runStep(engine).tokensById).toEqual({ a: 1, late: 1 });
  });

  test("takes from the least urgent, though it may run the longest", () => {
    const engine = anEngine({
      blockTokens: 4,
      blockCount: 7,
      compareUrgency: (a, b) => b.arrivalNumber - a.arrivalNumber,
    });
    submitPrompts(engine, [12], 12);
    runStep(engine);
    engine.submit(aGenerateRequest({ id: "b", promptTokens: [1, 2, 3], outputTokensMax: 20 }), 0);
    let step = runStep(engine);
    expect(step.batch?.rows.map((row) => row.sequenceId)).toEqual(["a", "b"]);
    step = runStep(engine);
    expect(step.batch?.rows.map((row) => row.sequenceId)).toEqual(["b", "a"]);
    while (engine.counters.preemptions === 0) step = runStep(engine);
    expect(step.tokensById).toEqual({ b: 1 });
  });

  test("a victim comes before those who wait and are as urgent", () => {
    const engine = anEngine({
      blockTokens: 4,
      blockCount: 7,
      sequencesMax: 2,
      compareUrgency: () => 0,
    });
    submitPrompts(engine, [12, 7], 12);
    runStep(engine);
    engine.submit(aGenerateRequest({ id: "late", promptTokens: [1], outputTokensMax: 1 }), 0);
    const rows = runToEnd(engine).flatMap(({ batch }) => batch?.rows ?? []);
    expect(engine.counters.preemptions).toBeGreaterThan(0);
    const others = rows.filter((row) => row.sequenceId !== "a");
    const resumed = others.findIndex((row) => row.tokens.length > 1);
    expect(others[resumed]?.sequenceId).toBe("b");
    expect(others.findIndex((row) => row.sequenceId === "late")).toBeGreaterThan(resumed);
  });

  test("a victim comes before those who arrived after it", () => {
    const engine = crowded();
    while (engine.counters.preemptions === 0) runStep(engine);
    engine.submit(aGenerateRequest({ id: "late", promptTokens: [1], outputTokensMax: 1 }), 0);
    const rows = runToEnd(engine).flatMap(({ batch }) => batch?.rows ?? []);
    const others = rows.map((row) => row.sequenceId).filter((id) => id !== "a");
    expect(others[0]).toBe("b");
    expect(others).toContain("late");
  });

  test("a resumed sequence computes its output again, apart from what is cached, and counts its hits apart", () => {
    const engine = crowded();
    let knownTokens = 7;
    while (engine.counters.preemptions === 0) {
      const { events } = runStep(engine);
      knownTokens += events.filter(({ kind, id }) => kind === "token" && id === "b").length;
    }
    const before = engine.counters.prefix;
    // Its last token had no KV yet; of the others the full blocks are cached.
    const cachedTokens = 4 * Math.floor((knownTokens - 1) / 4);
    expect(engine.load().queuedUncachedTokens).toBe(knownTokens - cachedTokens);
    let resumed = runStep(engine);
    while (resumed.tokensById["b"] === undefined) resumed = runStep(engine);
    const row = resumed.batch?.rows.find(({ sequenceId }) => sequenceId === "b");
    const { resumedHitTokens, resumedQueriedTokens, ...others } = engine.counters.prefix;
    expect(row?.startPosition).toBe(resumedHitTokens);
    expect(resumedQueriedTokens - resumedHitTokens).toBe(resumed.tokensById["b"]);
    expect(resumedQueriedTokens).toBe(knownTokens);
    expect(others).toEqual({
      loadedTokens: 0,
      queriedTokens: before.queriedTokens,
      hitTokens: before.hitTokens,
    });
  });

  test("a pool that holds all preempts nobody", () => {
    const engine = anEngine({ blockTokens: 4, blockCount: 24 });
    submitPrompts(engine, [12, 12, 12], 12);
    runToEnd(engine);
    expect(engine.counters.preemptions).toBe(0);
  });

  test("in any order of urgency every running sequence gets one share or is the victim", () => {
    for (const sign of [1, -1]) {
      const engine = anEngine({
        blockTokens: 2,
        blockCount: 12,
        batchTokensMax: 16,
        sequencesMax: 4,
        compareUrgency: (a, b) => sign * (a.arrivalNumber - b.arrivalNumber),
      });
      submitPrompts(engine, [3, 4, 3, 4], 9);
      let preemptions = 0;
      let running = 0;
      while (engine.load().queuedRequests + running > 0) {
        const step = runStep(engine);
        const rows = step.batch?.rows.map((row) => row.sequenceId) ?? [];
        const victims = engine.counters.preemptions - preemptions;
        expect(new Set(rows).size).toBe(rows.length);
        // The rows are all who ran and were not victims; no admission follows a preemption.
        const admissions = rows.length - (running - victims);
        expect(admissions).toBeGreaterThanOrEqual(0);
        expect(victims > 0 && admissions > 0).toBe(false);
        preemptions = engine.counters.preemptions;
        running = engine.load().runningRequests;
      }
      expect(preemptions).toBeGreaterThan(0);
      expect(engine.counters.finished.length).toBe(4);
    }
  });
});

describe("the order of urgency", () => {
  test("can be replaced: who comes first is admitted first and preempted last", () => {
    const engine = anEngine({
      sequencesMax: 1,
      compareUrgency: (a, b) => a.promptTokens - b.promptTokens,
    });
    submitPrompts(engine, [9, 3, 6], 1);
    const order = runToEnd(engine).map((step) => Object.keys(step.tokensById)[0]);
    expect(order).toEqual(["b", "c", "a"]);
  });
});
