import { describe, expect, test } from "vitest";
import type { GenerateRequest } from "../../../gpu-backend/engine/generate-request.ts";
import type { Policy } from "../../../gpu-backend/engine/scheduling.ts";
import { StepModel } from "../../../src/step-cost/step-model.ts";
import { urgencyOf } from "../../../gpu-backend/engine/urgency.ts";
import {
  aGenerateRequest,
  anEngine,
  runStep,
  runToEnd,
  tokenRange,
} from "../../support/engine-builders.ts";

/** 1 ms a token and nothing else. */
const MODEL = new StepModel({
  fixedMs: 0,
  tokenMs: 1,
  attendedPairMs: 0,
  sequenceMs: 0,
  kvTokenMs: 0,
});

type Arrival = Partial<GenerateRequest> & { readonly atMs?: number };

/** An engine that runs one request at a time, with these waiting: named a, b, c … */
function queued(policy: Policy, arrivals: readonly Arrival[]) {
  const engine = anEngine({
    sequencesMax: 1,
    compareUrgency: urgencyOf(policy, { forecast: MODEL, batchTokensMax: 1024 }),
  });
  for (const [index, { atMs = 0, ...overrides }] of arrivals.entries()) {
    const id = String.fromCodePoint(97 + index);
    const promptTokens = tokenRange(8, 1000 * (index + 1));
    engine.submit(aGenerateRequest({ id, promptTokens, outputTokensMax: 1, ...overrides }), atMs);
  }
  return engine;
}

/** The order in which requests are served that all wait. */
const orderOf = (policy: Policy, arrivals: readonly Arrival[]) =>
  runToEnd(queued(policy, arrivals)).map(({ tokensById }) => Object.keys(tokensById)[0]);

describe("first come, first served", () => {
  test("looks at nothing but arrival", () => {
    const arrivals = [{ priority: 5 }, { priority: -5 }, { firstTokenDeadlineAtMs: 1 }];
    expect(orderOf("fcfs", arrivals)).toEqual(["a", "b", "c"]);
  });
});

describe("priority", () => {
  test("serves lower values first, and equal ones in the order of arrival", () => {
    expect(orderOf("priority", [{ priority: 2 }, { priority: 0 }, { priority: 1 }])).toEqual([
      "b",
      "c",
      "a",
    ]);
    const late = [
      { priority: 3, atMs: 30 },
      { priority: 3, atMs: 10 },
      { priority: 3, atMs: 20 },
    ];
    expect(orderOf("priority", late)).toEqual(["b", "c", "a"]);
    expect(orderOf("priority", [{ priority: 1 }, { priority: 1 }])).toEqual(["a", "b"]);
  });

  test("a request gains a priority for every two seconds that it waits", () => {
    const waiting = { priority: 1, atMs: 0 };
    expect(orderOf("priority", [waiting, { priority: 0, atMs: 1999 }])).toEqual(["b", "a"]);
    expect(orderOf("priority", [waiting, { priority: 0, atMs: 2001 }])).toEqual(["a", "b"]);
    expect(orderOf("priority", [{ priority: 3 }, { priority: 0, atMs: 5999 }])).toEqual(["b", "a"]);
  });

  test("the least urgent request is not overtaken for ever, however far priorities lie apart", () => {
    const engine = queued("priority", [{ priority: 1_000_000_000 }]);
    let nowMs = 0;
    for (; engine.counters.finished.length < 1000; nowMs += 1000) {
      const request = aGenerateRequest({
        id: `urgent ${nowMs}`,
        promptTokens: [1, 2],
        outputTokensMax: 1,
        priority: -1_000_000_000,
      });
      engine.submit(request, nowMs);
      const { tokensById } = runStep(engine, { nowMs });
      if (tokensById["a"] !== undefined) break;
    }
    expect(engine.counters.finished.length).toBeGreaterThan(100);
    expect(engine.counters.finished.length).toBeLessThan(1000);
  });

  test("preempts the least urgent, and whoever waits displaces nobody that runs", () => {
    const engine = anEngine({
      blockTokens: 4,
      blockCount: 7,
      compareUrgency: urgencyOf("priority", { forecast: MODEL, batchTokensMax: 1024 }),
    });
    const from: Record<string, number> = { early: 1000, urgent: 2000, equal: 3000 };
    const add = (id: string, priority: number, tokens: number, outputTokensMax: number) =>
      engine.submit(
        aGenerateRequest({
          id,
          priority,
          promptTokens: tokenRange(tokens, from[id]),
          outputTokensMax,
        }),
        0,
      );
    add("early", 1, 12, 12);
    runStep(engine);
    add("urgent", 0, 7, 12);
    // As urgent as what runs, and more than the pool has left: it waits.
    add("equal", 1, 12, 1);
    let step = runStep(engine);
    expect(step.tokensById).toEqual({ urgent: 7, early: 1 });
    expect(engine.counters.preemptions).toBe(0);
    while (engine.counters.preemptions === 0) step = runStep(engine);
    expect(step.tokensById).toEqual({ urgent: 1 });
    expect(engine.load()).toMatchObject({ runningRequests: 1, queuedRequests: 2 });
  });
});

describe("least slack", () => {
  test("serves first what must begin first, which need not be what is due first", () => {
    const long = { promptTokens: tokenRange(400), firstTokenDeadlineAtMs: 1000 };
    const short = { promptTokens: tokenRange(8, 9000), firstTokenDeadlineAtMs: 700 };
    expect(orderOf("least-slack", [short, long])).toEqual(["b", "a"]);
    expect(orderOf("least-slack", [{ ...short, firstTokenDeadlineAtMs: 600 }, long])).toEqual([
      "a",
      "b",
    ]);
  });

  test("counts only what is not cached", () => {
    const engine = queued("least-slack", []);
    const add = (id: string, from: number, firstTokenDeadlineAtMs: number) =>
      engine.submit(
        aGenerateRequest({
          id,
          promptTokens: tokenRange(400, from),
          outputTokensMax: 1,
          firstTokenDeadlineAtMs,
        }),
        0,
      );
    add("first", 1000, 2000);
    runToEnd(engine);
    add("cached", 1000, 900);
    add("new", 5000, 1000);
    expect(runToEnd(engine).map(({ tokensById }) => Object.keys(tokensById)[0])).toEqual([
      "new",
      "cached",
    ]);
  });

  test("who has no deadline is not starved by those who have one", () => {
    const engine = queued("least-slack", [{}]);
    let nowMs = 0;
    for (; nowMs < 60_000; nowMs += 500) {
      const id = `urgent ${nowMs}`;
      const promptTokens = [1, 2];
      const firstTokenDeadlineAtMs = nowMs + 700;
      engine.submit(
        aGenerateRequest({ id, promptTokens, outputTokensMax: 1, firstTokenDeadlineAtMs }),
        nowMs,
      );
      if (runStep(engine, { nowMs }).tokensById["a"] !== undefined) break;
    }
    expect(nowMs).toBeGreaterThan(5000);
    expect(nowMs).toBeLessThan(60_000);
  });

  test("who was preempted is not starved by those who come after it", () => {
    const engine = anEngine({
      blockTokens: 4,
      blockCount: 7,
      sequencesMax: 2,
      compareUrgency: urgencyOf("least-slack", { forecast: MODEL, batchTokensMax: 1024 }),
    });
    for (const [id, tokens] of [
      ["a", 12],
      ["b", 7],
    ] as const) {
      const promptTokens = tokenRange(tokens, tokens * 1000);
      engine.submit(aGenerateRequest({ id, promptTokens, outputTokensMax: 12 }), 0);
    }
    let nowMs = 0;
    while (engine.counters.preemptions === 0) runStep(engine, { nowMs });
    let resumed = false;
    for (; nowMs < 10_000 && !resumed; nowMs += 100) {
      for (const name of ["x", "y"]) {
        const id = `${name} ${nowMs}`;
        const firstTokenDeadlineAtMs = nowMs + 500;
        engine.submit(
          aGenerateRequest({ id, promptTokens: [1], outputTokensMax: 1, firstTokenDeadlineAtMs }),
          nowMs,
        );
      }
      resumed = runStep(engine, { nowMs }).tokensById["b"] !== undefined;
    }
    expect(nowMs).toBeLessThan(5000);
  });

  test("an answer with a tight gap keeps its KV before one with a wide gap, and both before a prefill in no hurry", () => {
    const compare = urgencyOf("least-slack", { forecast: MODEL, batchTokensMax: 1024 });
    const engine = anEngine({
      blockTokens: 4,
      blockCount: 12,
      compareUrgency: compare,
    });
    const add = (id: string, tbtTargetMs: number) =>
      engine.submit(
        aGenerateRequest({ id, promptTokens: tokenRange(12), tbtTargetMs, outputTokensMax: 30 }),
        0,
      );
    add("wide", 500);
    add("tight", 20);
    runStep(engine);
    let step = runStep(engine);
    expect(Object.keys(step.tokensById)).toEqual(["tight", "wide"]);
    while (engine.counters.preemptions === 0) step = runStep(engine);
    expect(step.tokensById).toEqual({ tight: 1 });
  });
});
