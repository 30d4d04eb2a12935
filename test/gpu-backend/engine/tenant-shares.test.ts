import { describe, expect, test } from "vitest";
import type { Engine } from "../../../gpu-backend/engine/engine.ts";
import type { EngineOptions } from "../../../gpu-backend/engine/engine-options.ts";
import { compareArrival } from "../../../gpu-backend/engine/scheduler.ts";
import type { CompareUrgency } from "../../../gpu-backend/engine/scheduler.ts";
import { seededRandom } from "../../../src/base/random.ts";
import {
  aGenerateRequest,
  anEngine,
  runStep,
  runToEnd,
  tokenRange,
} from "../../support/engine-builders.ts";

/** Two shares of six blocks of four tokens. */
const aDividedEngine = (isolation: "borrow" | "strict", overrides: Partial<EngineOptions> = {}) =>
  anEngine({
    blockTokens: 4,
    blockCount: 12,
    shares: { shareCount: 2, isolation },
    ...overrides,
  });

const ORDERS: readonly CompareUrgency[] = [
  compareArrival,
  (a, b) => b.arrivalNumber - a.arrivalNumber,
  (a, b) => a.request.priority - b.request.priority || compareArrival(a, b),
];

interface Asked {
  readonly tokens: number;
  readonly from?: number;
  readonly outputTokensMax?: number;
}

function add(engine: Engine, tenant: string, id: string, asked: Asked) {
  const { tokens, from = 1000, outputTokensMax = 1 } = asked;
  const promptTokens = tokenRange(tokens, from);
  return engine.submit(aGenerateRequest({ tenant, id, promptTokens, outputTokensMax }), 0);
}

/** How many leading tokens of the prompt that "a" has served first are still cached. */
function cachedOfA(engine: Engine): number {
  add(engine, "a", "again", { tokens: 17 });
  const [step] = runToEnd(engine);
  return 17 - (step?.tokensById["again"] ?? 0);
}

describe("a tenant's share of the KV pool", () => {
  test("is not evicted by what another tenant sends, however much that is", () => {
    for (const isolation of ["borrow", "strict"] as const) {
      const engine = aDividedEngine(isolation);
      add(engine, "a", "first", { tokens: 17 });
      runToEnd(engine);
      for (let flood = 0; flood < 20; flood++) {
        add(engine, "b", `flood ${flood}`, { tokens: 20, from: 2000 + 100 * flood });
        runToEnd(engine);
      }
      expect(cachedOfA(engine)).toBe(16);
    }
    const undivided = anEngine({ blockTokens: 4, blockCount: 12 });
    add(undivided, "a", "first", { tokens: 17 });
    runToEnd(undivided);
    for (let flood = 0; flood < 20; flood++) {
      add(undivided, "b", `flood ${flood}`, { tokens: 20, from: 2000 + 100 * flood });
      runToEnd(undivided);
    }
    expect(cachedOfA(undivided)).toBe(0);
  });

  test("is exceeded only where borrowing is allowed, and what was borrowed goes first", () => {
    const fill = (isolation: "borrow" | "strict") => {
      const engine = aDividedEngine(isolation);
      for (const [index, id] of ["one", "two"].entries()) {
        add(engine, "a", id, { tokens: 17, from: 1000 + 100 * index });
        runToEnd(engine);
      }
      return engine;
    };
    const borrowing = fill("borrow");
    expect(cachedOfA(borrowing)).toBe(16);
    const lending = fill("borrow");
    add(lending, "b", "due", { tokens: 20, from: 5000 });
    runToEnd(lending);
    expect(cachedOfA(lending)).toBeLessThan(16);
    expect(cachedOfA(fill("strict"))).toBeLessThan(16);
  });

  test("bounds a request: what is larger is refused, and an output ends that outgrows it", () => {
    const engine = aDividedEngine("borrow");
    expect(engine.sequenceTokensMax).toBe(24);
    expect(add(engine, "a", "large", { tokens: 24 })).toEqual([
      { kind: "refused", id: "large", reason: "kv-too-small" },
    ]);
    add(engine, "a", "long", { tokens: 20, outputTokensMax: 50 });
    const events = runToEnd(engine).flatMap((step) => step.events);
    expect(events.at(-1)).toMatchObject({ reason: "length", outputTokens: 4 });
  });

  test("another tenant's prompt is never hit, though salt and tokens are the same", () => {
    const engine = aDividedEngine("borrow");
    add(engine, "a", "first", { tokens: 17 });
    runToEnd(engine);
    add(engine, "b", "same", { tokens: 17 });
    expect(runStep(engine).tokensById).toEqual({ same: 17 });
    expect(engine.counters.prefix.hitTokens).toBe(0);
  });
});

describe("tenants that share a pool", () => {
  test("who is at its share waits alone: others go past it, its own do not", () => {
    const engine = aDividedEngine("strict");
    add(engine, "a", "a1", { tokens: 16, outputTokensMax: 4 });
    add(engine, "a", "a2", { tokens: 12, from: 2000 });
    add(engine, "a", "a3", { tokens: 3, from: 3000 });
    add(engine, "b", "b1", { tokens: 12, from: 4000 });
    expect(runStep(engine).tokensById).toEqual({ a1: 16, b1: 12 });
    const order = runToEnd(engine).flatMap((step) => Object.keys(step.tokensById));
    expect(order.indexOf("a2")).toBeLessThanOrEqual(order.indexOf("a3"));
    expect(order.indexOf("a2")).toBeGreaterThanOrEqual(0);
  });

  test("a tenant that grows takes from its own requests, not from another within its share", () => {
    const engine = aDividedEngine("strict");
    add(engine, "a", "a1", { tokens: 7, outputTokensMax: 12 });
    add(engine, "a", "a2", { tokens: 7, from: 2000, outputTokensMax: 12 });
    runStep(engine);
    add(engine, "b", "b1", { tokens: 7, from: 3000, outputTokensMax: 16 });
    runStep(engine);
    let step = runStep(engine);
    expect(Object.keys(step.tokensById)).toEqual(["a1", "a2", "b1"]);
    while (engine.counters.preemptions === 0) step = runStep(engine);
    // The last to arrive was b1, and the pool is full of what is nobody's.
    expect(Object.keys(step.tokensById)).toEqual(["a1", "b1"]);
  });

  test("a tenant within its share takes back what another has borrowed and runs with", () => {
    const engine = aDividedEngine("borrow");
    add(engine, "b", "b1", { tokens: 7, from: 3000, outputTokensMax: 17 });
    add(engine, "a", "a1", { tokens: 11, outputTokensMax: 12 });
    add(engine, "a", "a2", { tokens: 11, from: 2000, outputTokensMax: 12 });
    let step = runStep(engine);
    expect(Object.keys(step.tokensById)).toEqual(["b1", "a1", "a2"]);
    while (engine.counters.preemptions === 0) step = runStep(engine);
    expect(Object.keys(step.tokensById)).toEqual(["b1", "a1"]);
  });

  test("one more than there are shares waits until somebody's share is idle", () => {
    const engine = aDividedEngine("borrow");
    for (const [index, tenant] of ["a", "b", "c"].entries()) {
      add(engine, tenant, tenant, { tokens: 4, from: 1000 * index, outputTokensMax: 3 - index });
    }
    expect(runStep(engine).tokensById).toEqual({ a: 4, b: 4 });
    expect(runStep(engine).tokensById).toEqual({ a: 1, b: 1 });
    expect(runStep(engine).tokensById).toEqual({ a: 1, c: 4 });
  });

  test("all come to their end in any order of urgency, with invariants kept after every call", () => {
    const seen = { preemptions: 0, hits: 0 };
    for (let seed = 0; seed < 400; seed++) {
      const random = seededRandom(seed);
      const upTo = (max: number) => 1 + Math.floor(random() * max);
      const shareCount = upTo(3);
      const shareBlocks = 3 + upTo(5);
      const engine = anEngine({
        blockTokens: 2,
        blockCount: shareCount * shareBlocks + upTo(3) - 1,
        sequencesMax: 6,
        batchTokensMax: 6 + upTo(10),
        shares: { shareCount, isolation: random() < 0.5 ? "borrow" : "strict" },
        kvAdmission: random() < 0.2 ? "past-future" : "known",
        compareUrgency: ORDERS[seed % ORDERS.length] ?? compareArrival,
      });
      const tokensOfOne = 2 * shareBlocks;
      for (let request = 0; request < 20; request++) {
        const outputTokensMax = upTo(tokensOfOne / 2);
        const id = `${request}`;
        const tenant = `tenant ${upTo(4)}`;
        const promptTokens = tokenRange(upTo(tokensOfOne - 1), 1000 * upTo(3));
        engine.submit(
          aGenerateRequest({ id, tenant, priority: upTo(3), promptTokens, outputTokensMax }),
          0,
        );
        engine.checkInvariants();
        if (random() < 0.7) runStep(engine);
        if (random() < 0.1) engine.cancel(`${upTo(20)}`);
      }
      runToEnd(engine);
      const { finished, refused, preemptions, prefix } = engine.counters;
      const ended = Object.values({ ...finished, ...refused }).reduce((sum, count) => sum + count);
      expect(ended, `seed ${seed}`).toBe(20);
      expect(engine.load().usedBlocks).toBe(0);
      expect(engine.resetPrefixCache()).toBe(true);
      engine.checkInvariants();
      seen.preemptions += preemptions;
      seen.hits += prefix.hitTokens;
    }
    expect(seen.preemptions).toBeGreaterThan(200);
    expect(seen.hits).toBeGreaterThan(1000);
  });
});
