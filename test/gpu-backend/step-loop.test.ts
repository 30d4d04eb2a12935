import { setImmediate } from "node:timers/promises";
import { expect, test } from "vitest";
import { DraftModel } from "../../gpu-backend/draft-model.ts";
import { Sampler } from "../../gpu-backend/engine/sampler.ts";
import { StepModel } from "../../src/step-cost/step-model.ts";
import { Engine } from "../../gpu-backend/engine/engine.ts";
import type { GenerateRequest } from "../../gpu-backend/engine/generate-request.ts";
import { StepMeter } from "../../gpu-backend/engine/step-meter.ts";
import { StepLoop } from "../../gpu-backend/step-loop.ts";
import { createStepWatchMemory, StepWatch } from "../../gpu-backend/step-watch.ts";
import type { EngineEvent } from "../../gpu-backend/thread-messages.ts";
import { aGenerateRequest, hashBlockReadably } from "../support/engine-builders.ts";
import { type BeforeRun, MemoryExecutor } from "../support/memory-executor.ts";
import { generateAlone } from "../support/paged-memory-model.ts";

/** A loop around the real engine, perhaps with a draft model; it runs until the test ends. */
function startLoop(beforeRun?: BeforeRun, draftRun?: BeforeRun) {
  const executor = new MemoryExecutor(beforeRun);
  const draftModel = draftRun && aDraftModel(draftRun);
  const engine = new Engine({
    blockCount: executor.blockCount,
    blockTokens: executor.blockTokens,
    contextTokens: executor.contextTokens,
    batchTokensMax: executor.batchTokensMax,
    sequencesMax: 4,
    queueMax: 4,
    prefixCache: true,
    modelRevision: "model",
    hashBlock: hashBlockReadably,
    ...(draftModel !== undefined && {
      forecast: new StepModel({ ...NO_COST, fixedMs: 1 }),
      speculation: { looksUp: false, drafts: true, draftTokensMax: 3 },
    }),
  });
  const events: EngineEvent[] = [];
  const givenUp: string[] = [];
  const loop = new StepLoop({
    engine,
    executor,
    meter: new StepMeter({ stepMs: 1, prefillTokensPerSecond: 1000 }),
    draftModel,
    watch: new StepWatch(createStepWatchMemory()),
    nowMs: () => 0,
    publish: (published) => {
      engine.checkInvariants();
      events.push(...published);
    },
    onDraftsGivenUp: (reason) => givenUp.push(reason),
  });
  let failure: unknown;
  loop.run().catch((error: unknown) => (failure = error));
  return {
    engine,
    executor,
    draftModel,
    events,
    givenUp,
    loop,
    failure: () => failure,
    tokensOf: (id: string) =>
      events.flatMap((event) => (event.kind === "token" && event.id === id ? event.tokenId : [])),
    endingsOf: (id: string) =>
      events.filter((event) => event.id === id && !["token", "started"].includes(event.kind)),
  };
}

const NO_COST = { fixedMs: 0, tokenMs: 0, attendedPairMs: 0, sequenceMs: 0, kvTokenMs: 0 };

/** The served model once more, so that all it drafts holds. */
function aDraftModel(beforeRun: BeforeRun): DraftModel {
  const executor = new MemoryExecutor(beforeRun);
  return new DraftModel({
    executor,
    sampler: new Sampler(executor.vocabularyTokens),
    speed: { stepMs: 0.001, prefillTokensPerSecond: 1e6 },
    nowMs: () => 0,
  });
}

/** Lets the loop run on; with nothing to do it takes no more turns, so many are enough. */
async function settle(turns = 200): Promise<void> {
  for (let turn = 0; turn < turns; turn++) await setImmediate();
}

function aloneTokens(request: GenerateRequest): number[] {
  const { chosen } = generateAlone(request, { vocabularyTokens: 64, sequenceTokensMax: 256 });
  return chosen.map((token) => token.tokenId);
}

const requestA = aGenerateRequest({ id: "a", promptTokens: [1, 2, 3, 4, 5], outputTokensMax: 9 });
const requestB = aGenerateRequest({ id: "b", promptTokens: [6, 7, 8], outputTokensMax: 7 });

test("a request runs to its end, and the loop then takes no more steps", async () => {
  const { loop, executor, tokensOf, events } = startLoop();
  loop.submit(requestA);
  await settle();
  expect(tokensOf("a")).toEqual(aloneTokens(requestA));
  expect(events[0]).toEqual({ kind: "started", id: "a", cachedTokens: 0 });
  expect(executor.runs).toBe(9);
  await settle();
  expect(executor.runs).toBe(9);
});

test("a loop that sleeps wakes for the next request", async () => {
  const { loop, tokensOf } = startLoop();
  loop.submit(requestA);
  await settle();
  loop.submit(requestB);
  await settle();
  expect(tokensOf("b")).toEqual(aloneTokens(requestB));
});

test("a cancel during a step acts at its boundary: no later step computes the request", async () => {
  const rows: string[][] = [];
  const { loop, engine, endingsOf } = startLoop((batch, run) => {
    rows.push(batch.rows.map((row) => row.sequenceId));
    if (run === 3) loop.cancel("a");
  });
  loop.submit(requestA);
  loop.submit(requestB);
  await settle();
  expect(rows.slice(0, 4)).toEqual([["a", "b"], ["a", "b"], ["a", "b"], ["b"]]);
  expect(endingsOf("a")).toMatchObject([{ kind: "finished", reason: "cancelled" }]);
  expect(engine.load().usedBlocks).toBe(0);
});

test("a step that fails once is tried again and changes no token", async () => {
  const { loop, tokensOf, failure } = startLoop((_, run) => {
    if (run === 2) throw new Error("out of luck");
  });
  loop.submit(requestA);
  loop.submit(requestB);
  await settle();
  expect(tokensOf("a")).toEqual(aloneTokens(requestA));
  expect(tokensOf("b")).toEqual(aloneTokens(requestB));
  expect(loop.stepRetries).toBe(1);
  expect(failure()).toBeUndefined();
});

test("a poisoned request ends alone: its batch mates keep their tokens", async () => {
  const { loop, engine, tokensOf, endingsOf } = startLoop((batch) => {
    const poisoned = batch.rows.find((row) => row.sequenceId === "a" && row.startPosition > 5);
    if (poisoned !== undefined) throw new Error("no kernel for this row");
  });
  loop.submit(requestA);
  loop.submit(requestB);
  await settle();
  expect(endingsOf("a")).toEqual([
    { kind: "failed", id: "a", message: "Error: no kernel for this row" },
  ]);
  expect(tokensOf("b")).toEqual(aloneTokens(requestB));
  expect(engine.load().usedBlocks).toBe(0);
});

test("a request alone that always fails ends, and the next one is served", async () => {
  const { loop, tokensOf, endingsOf, failure } = startLoop((batch) => {
    if (batch.rows[0]?.sequenceId === "a") throw new Error("poison");
  });
  loop.submit(requestA);
  await settle();
  loop.submit(requestB);
  await settle();
  expect(endingsOf("a")).toMatchObject([{ kind: "failed" }]);
  expect(tokensOf("b")).toEqual(aloneTokens(requestB));
  expect(failure()).toBeUndefined();
});

test("a runtime that computes no row of a batch is given up", async () => {
  const { loop, failure } = startLoop(() => {
    throw new Error("session is gone");
  });
  loop.submit(requestA);
  loop.submit(requestB);
  await settle();
  expect(failure()).toEqual(
    new Error("The runtime computes nothing any more: Error: session is gone"),
  );
});

test("a runtime that fails three lone requests in a row is given up", async () => {
  const { loop, failure, endingsOf } = startLoop(() => {
    throw new Error("session is gone");
  });
  for (const id of ["a", "b"]) {
    loop.submit({ ...requestA, id });
    await settle();
    expect(endingsOf(id)).toMatchObject([{ kind: "failed" }]);
    expect(failure()).toBeUndefined();
  }
  loop.submit({ ...requestA, id: "c" });
  await settle();
  expect(failure()).toBeInstanceOf(Error);
});

test("a request that is late already is refused and never started", async () => {
  const { loop, events, endingsOf } = startLoop();
  loop.submit({ ...requestA, firstTokenDeadlineAtMs: 0 });
  await settle();
  expect(endingsOf("a")).toEqual([{ kind: "refused", id: "a", reason: "deadline-passed" }]);
  expect(events).toHaveLength(1);
});

test("what a draft model says is verified, and nothing of it is left when its request has ended", async () => {
  const { loop, executor, draftModel, tokensOf, engine } = startLoop(undefined, () => {});
  loop.submit(requestA);
  await settle();
  expect(tokensOf("a")).toEqual(aloneTokens(requestA));
  expect(executor.runs).toBeLessThan(6);
  expect(engine.counters.drafts.acceptedTokens).toBeGreaterThan(4);
  expect(draftModel?.textCount).toBe(0);
});

test("a draft model that fails costs its drafts, and is given up in the end, which is said once", async () => {
  let draftRuns = 0;
  const { loop, executor, tokensOf, failure, givenUp } = startLoop(undefined, () => {
    draftRuns += 1;
    throw new Error("no draft");
  });
  loop.submit(requestA);
  loop.submit(requestB);
  await settle();
  expect(tokensOf("a")).toEqual(aloneTokens(requestA));
  expect(tokensOf("b")).toEqual(aloneTokens(requestB));
  expect(executor.runs).toBe(9);
  expect(draftRuns).toBe(3);
  expect(givenUp).toEqual(["no draft"]);
  expect(failure()).toBeUndefined();
});
