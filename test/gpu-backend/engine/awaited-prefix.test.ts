import { describe, expect, test } from "vitest";
import type { Engine } from "../../../gpu-backend/engine/engine.ts";
import type { GenerateRequest } from "../../../gpu-backend/engine/generate-request.ts";
import {
  aGenerateRequest,
  anEngine,
  runStep,
  runToEnd,
  tokenRange,
} from "../../support/engine-builders.ts";

function add(engine: Engine, id: string, overrides: Partial<GenerateRequest> = {}): void {
  engine.submit(aGenerateRequest({ id, promptTokens: tokenRange(100), ...overrides }), 0);
}

/** What the step computes that b finds, when a has begun the same prompt; ranks from the most urgent. */
function secondStep(ranks: readonly string[]): Record<string, number> {
  const engine = anEngine({
    batchTokensMax: 150,
    compareUrgency: (a, b) => ranks.indexOf(a.id) - ranks.indexOf(b.id),
  });
  add(engine, "a", { promptTokens: tokenRange(200) });
  runStep(engine);
  add(engine, "b", { promptTokens: tokenRange(200) });
  return runStep(engine).tokensById;
}

describe("requests that begin alike", () => {
  test("the second of two equal prompts computes only what the first does not", () => {
    const engine = anEngine();
    add(engine, "a");
    add(engine, "b");
    expect(runStep(engine).tokensById).toEqual({ a: 100 });
    expect(runStep(engine).tokensById).toEqual({ a: 1, b: 4 });
    expect(engine.counters.prefix).toMatchObject({ queriedTokens: 200, hitTokens: 96 });
  });

  test("whoever waits for a prefix counts as waiting, and others go past it", () => {
    const engine = anEngine({ batchTokensMax: 50 });
    add(engine, "a");
    add(engine, "b");
    add(engine, "other", { promptTokens: tokenRange(8, 5000) });
    expect(runStep(engine).tokensById).toEqual({ a: 50 });
    expect(runStep(engine).tokensById).toEqual({ a: 50 });
    expect(engine.load()).toMatchObject({ runningRequests: 1, queuedRequests: 2 });
    expect(runStep(engine).tokensById).toEqual({ a: 1, b: 4, other: 8 });
    const crowded = anEngine();
    add(crowded, "a");
    add(crowded, "b");
    add(crowded, "other", { promptTokens: tokenRange(8, 5000) });
    expect(runStep(crowded).tokensById).toEqual({ a: 100, other: 8 });
    expect(crowded.load()).toMatchObject({ runningRequests: 2, queuedRequests: 1 });
  });

  test("all who wait for one prefix follow together, in the order of arrival", () => {
    const engine = anEngine();
    for (const id of ["a", "b", "c", "d"]) add(engine, id);
    expect(runStep(engine).tokensById).toEqual({ a: 100 });
    expect(Object.entries(runStep(engine).tokensById)).toEqual([
      ["a", 1],
      ["b", 4],
      ["c", 4],
      ["d", 4],
    ]);
  });

  test("nobody waits for a prefix that is hardly longer than what is cached of it", () => {
    const engine = anEngine();
    const head = tokenRange(31);
    add(engine, "a", { promptTokens: [...head, ...tokenRange(20, 5000)] });
    add(engine, "b", { promptTokens: [...head, ...tokenRange(20, 6000)] });
    expect(runStep(engine).tokensById).toEqual({ a: 51, b: 51 });
    const long = anEngine();
    add(long, "a", { promptTokens: [...tokenRange(32), ...tokenRange(20, 5000)] });
    add(long, "b", { promptTokens: [...tokenRange(32), ...tokenRange(20, 6000)] });
    expect(runStep(long).tokensById).toEqual({ a: 52 });
  });

  test("of another namespace, or without a prefix cache, nobody waits for the other", () => {
    const engine = anEngine();
    add(engine, "a");
    add(engine, "b", { cacheSalt: "other" });
    expect(runStep(engine).tokensById).toEqual({ a: 100, b: 100 });
    const uncached = anEngine({ prefixCache: false });
    add(uncached, "a");
    add(uncached, "b");
    expect(runStep(uncached).tokensById).toEqual({ a: 100, b: 100 });
  });

  test("who is told about every token of its prompt computes them all, and waits for nobody", () => {
    const engine = anEngine();
    add(engine, "a");
    add(engine, "b", { pooling: "mean", outputTokensMax: 0 });
    const { batch } = engine.plan(0);
    expect(batch?.rows.map(({ sequenceId }) => sequenceId)).toEqual(["a", "b"]);
  });

  test("a request does not wait for one that is less urgent", () => {
    expect(secondStep(["a", "b"])).toEqual({ a: 50 });
    expect(secondStep(["b", "a"])).toEqual({ a: 50, b: 56 });
  });

  test("nobody waits for a prefix that somebody computed and that is void since", () => {
    const engine = anEngine();
    add(engine, "a", { outputTokensMax: 50 });
    add(engine, "b");
    runStep(engine);
    const { batch } = engine.plan(0);
    const rows = batch?.rows ?? [];
    expect(rows.map(({ sequenceId }) => sequenceId)).toEqual(["a", "b"]);
    if (batch === undefined) throw new Error("a and b are planned");
    // What b shares with a is not trusted any more, though a goes on with it.
    const poison = { kind: "failed", message: "Poison" } as const;
    engine.commit(batch, [{ kind: "computed", chosen: [{ tokenId: 7 }] }, poison]);
    add(engine, "c");
    expect(runStep(engine).tokensById).toEqual({ a: 1, c: 100 });
  });

  test("when the first one fails, is cancelled or is rolled back, the next one computes the prefix itself", () => {
    for (const fate of ["failed", "cancelled", "rolled back"] as const) {
      const engine = anEngine();
      add(engine, "a");
      add(engine, "b");
      const { batch } = engine.plan(0);
      expect(batch?.rows).toHaveLength(1);
      if (batch === undefined) continue;
      if (fate === "cancelled") engine.cancel("a");
      if (fate === "failed") engine.commit(batch, [{ kind: "failed", message: "Poison" }]);
      else engine.rollback(batch);
      engine.checkInvariants();
      const expected = fate === "rolled back" ? { a: 100 } : { b: 100 };
      expect(runStep(engine).tokensById).toEqual(expected);
      expect(runToEnd(engine).length).toBeGreaterThan(0);
    }
  });
});
