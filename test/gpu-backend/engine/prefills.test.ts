import { describe, expect, test } from "vitest";
import type { EngineOptions } from "../../../gpu-backend/engine/engine-options.ts";
import type { GenerateEvent } from "../../../gpu-backend/engine/generate-request.ts";
import { KV_HOLD_MS, KV_HOLDS_MAX } from "../../../gpu-backend/engine/kv-cache/kv-leases.ts";
import { aGenerateRequest, tokenRange } from "../../support/engine-builders.ts";
import { chainOfText } from "../../support/prompt-chains.ts";
import { MemoryEngine } from "../../support/memory-engine.ts";

const BLOCK_TOKENS = 4;
const PROMPT = tokenRange(19, 1);
const PREFILL = aGenerateRequest({ id: "p", promptTokens: PROMPT, prefillOnly: true });

function aMemory(options: Partial<EngineOptions> = {}) {
  const memory = new MemoryEngine({ blockTokens: BLOCK_TOKENS, blockCount: 16, ...options });
  return { memory, engine: memory.engine, leases: memory.engine.kvLeases };
}

function hashesOfPrefill({ engine }: ReturnType<typeof aMemory>): string[] {
  return engine.takeKvEvents(100).flatMap((event) => (event.kind === "stored" ? [event.hash] : []));
}

function aHold(options: Partial<EngineOptions> = {}) {
  const parts = aMemory(options);
  parts.memory.submit(PREFILL);
  parts.memory.runToEnd();
  const blocks = parts.engine.load().usedBlocks;
  return { ...parts, blocks, hashes: hashesOfPrefill(parts) };
}

function endOf(memory: MemoryEngine, id: string): GenerateEvent | undefined {
  return memory.heardBy(id).at(-1);
}

describe("a prompt that is computed for another engine", () => {
  test("ends with its last full block that can be hit, says no token, and is held", () => {
    const { memory, engine, leases } = aMemory({ batchTokensMax: 6, sequencesMax: 1 });
    memory.submit(PREFILL);
    memory.runToEnd();
    expect(memory.heardBy("p")).toEqual([
      {
        kind: "finished",
        id: "p",
        reason: "length",
        promptTokens: 19,
        cachedTokens: 0,
        outputTokens: 0,
        heldTokens: 16,
      },
    ]);
    expect(engine.counters).toMatchObject({
      computedTokens: 16,
      promptTokens: 0,
      generatedTokens: 0,
      prefills: { requests: 1, tokens: 19 },
    });
    expect(leases.holds).toBe(1);
    expect(engine.load()).toMatchObject({ runningRequests: 0, usedBlocks: 4 });
    memory.submit(aGenerateRequest({ id: "r", promptTokens: PROMPT }));
    memory.step();
    // The rest of the prompt alone is left to whoever goes on.
    expect(engine.counters.computedTokens).toBe(16 + 3);
  });

  test("of whole blocks leaves the last one, whose last token is computed anyway", () => {
    const { memory } = aMemory();
    memory.submit({ ...PREFILL, promptTokens: tokenRange(16, 1) });
    memory.runToEnd();
    expect(endOf(memory, "p")).toMatchObject({ heldTokens: 12 });
  });

  test("goes with what there is of its output", () => {
    const { memory } = aMemory();
    memory.submit({ ...PREFILL, emittedTokens: [3, 4], outputTokensMax: 9 });
    memory.runToEnd();
    expect(endOf(memory, "p")).toMatchObject({ promptTokens: 19, heldTokens: 20 });
  });

  test("that is cached is held at once, and what is of no use to others is not computed", () => {
    const { memory, engine } = aMemory();
    memory.submit(PREFILL);
    memory.runToEnd();
    const { computedTokens } = engine.counters;
    memory.submit({ ...PREFILL, id: "again" });
    expect(endOf(memory, "again")).toMatchObject({ cachedTokens: 16, heldTokens: 16 });
    memory.submit({ ...PREFILL, id: "short", promptTokens: tokenRange(4, 1) });
    expect(endOf(memory, "short")).toMatchObject({ kind: "finished", heldTokens: 0 });
    expect(engine.counters.computedTokens).toBe(computedTokens);
    const uncached = aMemory({ prefixCache: false });
    uncached.memory.submit(PREFILL);
    expect(endOf(uncached.memory, "p")).toMatchObject({ cachedTokens: 0, heldTokens: 0 });
    expect(uncached.engine.counters.computedTokens).toBe(0);
  });

  test("is refused as any other: too long for an answer, too late, too many", () => {
    const { memory, engine } = aMemory({ contextTokens: 19, sequencesMax: 1, queueMax: 1 });
    memory.submit(PREFILL);
    expect(endOf(memory, "p")).toMatchObject({ kind: "refused", reason: "prompt-too-long" });
    const promptTokens = tokenRange(18, 1);
    memory.submit({ ...PREFILL, id: "late", promptTokens, firstTokenDeadlineAtMs: 0 });
    expect(endOf(memory, "late")).toMatchObject({ reason: "deadline-passed" });
    for (const id of ["a", "b", "c"]) memory.submit({ ...PREFILL, id, promptTokens });
    expect(endOf(memory, "c")).toMatchObject({ reason: "queue-full" });
    expect(engine.load()).toMatchObject({ queuedRequests: 2 });
  });

  test("is told to the gateway by the names of the beginnings that it covers", () => {
    const { memory, engine } = aMemory();
    memory.submit({ ...PREFILL, promptChain: chainOfText("prompts") });
    memory.runToEnd();
    // Of seven names for 19 tokens the sixth ends behind the sixteenth.
    expect(engine.takePrefixChanges()?.stored.replaceAll("-", " ").trim().split(/ +/)).toEqual([
      "p",
      "pr",
      "pro",
      "prom",
      "promp",
    ]);
  });

  test("that is cancelled at any moment holds nothing", () => {
    for (let steps = 0; steps < 3; steps += 1) {
      const { memory, engine, leases } = aMemory({ batchTokensMax: 6, sequencesMax: 1 });
      memory.submit(PREFILL);
      for (let step = 0; step < steps; step += 1) memory.step();
      if (steps === 2) {
        // In the midst of its last step.
        const { batch } = engine.plan(0);
        memory.cancel("p");
        if (batch === undefined) throw new Error("There is a step");
        engine.commit(
          batch,
          batch.rows.map(() => ({ kind: "computed" })),
        );
      } else {
        memory.cancel("p");
      }
      expect(leases.holds).toBe(0);
      expect(engine.load()).toMatchObject({ runningRequests: 0, usedBlocks: 0 });
      engine.checkInvariants();
    }
  });
});

describe("what is held for another engine", () => {
  test("ends when it is read to its end, and not before", () => {
    const { engine, leases, hashes } = aHold({ logsEvents: true });
    expect(leases.open("half", hashes, Infinity)).toBe(4);
    leases.read("half", { from: 0, count: 3 });
    leases.close("half");
    expect(leases.holds).toBe(1);
    // Who has the beginning asks for the rest alone.
    expect(leases.open("rest", hashes.slice(2), Infinity)).toBe(2);
    leases.read("rest", { from: 0, count: 2 });
    leases.close("rest");
    expect(leases).toMatchObject({ holds: 0, holdsEndedEarly: 0, count: 0 });
    expect(engine.load().usedBlocks).toBe(0);
    engine.checkInvariants();
  });

  test("of two that are alike is one for each reader", () => {
    const { memory, leases, hashes } = aHold({ logsEvents: true });
    memory.submit({ ...PREFILL, id: "q" });
    expect(leases.holds).toBe(2);
    leases.open("a", hashes, Infinity);
    leases.read("a", { from: 0, count: 4 });
    leases.close("a");
    expect(leases.holds).toBe(1);
  });

  test("ends by itself", () => {
    const { engine, leases } = aHold();
    engine.plan(KV_HOLD_MS - 1);
    expect(leases.holds).toBe(1);
    engine.plan(KV_HOLD_MS);
    expect(leases).toMatchObject({ holds: 0, holdsEndedEarly: 1 });
    expect(engine.load().usedBlocks).toBe(0);
  });

  test("gives way to who runs here, before a transfer does", () => {
    const { memory, leases, hashes } = aHold({ logsEvents: true, blockCount: 8 });
    memory.submit({ ...PREFILL, id: "q", promptTokens: tokenRange(12, 100) });
    memory.runToEnd();
    leases.open("a", hashes.slice(0, 2), Infinity);
    expect(leases.holds).toBe(2);
    const promptTokens = tokenRange(22, 50);
    memory.submit(aGenerateRequest({ id: "r", promptTokens, outputTokensMax: 1 }));
    memory.runToEnd();
    expect(memory.tokensOf("r")).toHaveLength(1);
    expect(leases).toMatchObject({ holds: 0, count: 1 });
  });

  test("is one of so many, of which the oldest goes first", () => {
    const { memory, leases } = aHold();
    for (let index = 0; index < KV_HOLDS_MAX; index += 1) {
      memory.submit({ ...PREFILL, id: `p${index}` });
    }
    expect(leases).toMatchObject({ holds: KV_HOLDS_MAX, holdsEndedEarly: 1 });
  });
});
