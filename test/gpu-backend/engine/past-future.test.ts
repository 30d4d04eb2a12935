import { describe, expect, test } from "vitest";
import type { Engine } from "../../../gpu-backend/engine/engine.ts";
import type { EngineOptions } from "../../../gpu-backend/engine/engine-options.ts";
import { seededRandom } from "../../../src/base/random.ts";
import {
  aGenerateRequest,
  anEngine,
  runStep,
  runToEnd,
  tokenRange,
} from "../../support/engine-builders.ts";

const aTightEngine = (overrides: Partial<EngineOptions> = {}) =>
  anEngine({ blockTokens: 4, blockCount: 12, kvAdmission: "past-future", ...overrides });

function add(engine: Engine, id: string, promptTokens: readonly number[], outputTokensMax: number) {
  engine.submit(aGenerateRequest({ id, promptTokens, outputTokensMax }), 0);
}

describe("admission by what outputs become", () => {
  test("lets a request wait that would fit now and not later", () => {
    for (const kvAdmission of ["known", "past-future"] as const) {
      const engine = aTightEngine({ kvAdmission });
      add(engine, "a", tokenRange(12), 20);
      add(engine, "b", tokenRange(12, 5000), 20);
      const isCautious = kvAdmission === "past-future";
      expect(runStep(engine).tokensById).toEqual(isCautious ? { a: 12 } : { a: 12, b: 12 });
      runToEnd(engine);
      expect(engine.counters.preemptions).toBe(isCautious ? 0 : 1);
    }
  });

  test("admits at once what will have room because another one ends before", () => {
    const engine = aTightEngine();
    add(engine, "long", tokenRange(12), 20);
    add(engine, "short", tokenRange(12, 5000), 4);
    expect(runStep(engine).tokensById).toEqual({ long: 12, short: 12 });
    runToEnd(engine);
    expect(engine.counters.preemptions).toBe(0);
  });

  test("a prompt that is shared needs room once", () => {
    const engine = aTightEngine({ blockCount: 13 });
    add(engine, "warm", tokenRange(33), 1);
    runToEnd(engine);
    for (const id of ["a", "b", "c"]) add(engine, id, tokenRange(33), 3);
    expect(runStep(engine).tokensById).toEqual({ a: 1, b: 1, c: 1 });
  });

  test("expects of outputs what past ones became", () => {
    const engine = aTightEngine();
    for (let request = 0; request < 8; request++) {
      add(engine, `past ${request}`, tokenRange(4, 1000 * request), 2);
      runToEnd(engine);
    }
    add(engine, "a", tokenRange(12, 20_000), 20);
    add(engine, "b", tokenRange(12, 30_000), 20);
    expect(runStep(engine).tokensById).toEqual({ a: 12, b: 12 });
  });

  test("what was cancelled or failed says nothing about outputs", () => {
    const engine = aTightEngine();
    for (let request = 0; request < 8; request++) {
      add(engine, `past ${request}`, tokenRange(4, 1000 * request), 2);
      runStep(engine);
      engine.cancel(`past ${request}`);
    }
    add(engine, "a", tokenRange(12, 20_000), 20);
    add(engine, "b", tokenRange(12, 30_000), 20);
    expect(runStep(engine).tokensById).toEqual({ a: 12 });
  });

  test("preempts nobody when every prompt takes one step and every output becomes as long as expected", () => {
    let waits = 0;
    for (let seed = 0; seed < 300; seed++) {
      const random = seededRandom(seed);
      const upTo = (max: number) => 1 + Math.floor(random() * max);
      const engine = aTightEngine({
        blockTokens: upTo(5),
        blockCount: 12 + upTo(20),
        sequencesMax: upTo(6),
        prefixCache: random() < 0.5,
      });
      for (let request = 0; request < 12; request++) {
        const start = random() < 0.3 ? 1000 : 1000 * (request + 2);
        // Fewer requests than would make a history: each is expected to reach its limit.
        if (request < 7) add(engine, `${request}`, tokenRange(upTo(12), start), upTo(12));
        if (random() < 0.5) runStep(engine);
        waits += engine.load().queuedRequests > 0 ? 1 : 0;
      }
      runToEnd(engine);
      expect(engine.counters.preemptions, `seed ${seed}`).toBe(0);
    }
    expect(waits).toBeGreaterThan(100);
  });
});
