import { describe, expect, test } from "vitest";
import type { Batch } from "../../../../gpu-backend/engine/batch.ts";
import { workOf } from "../../../../gpu-backend/engine/batch-work.ts";
import type { Engine } from "../../../../gpu-backend/engine/engine.ts";
import type { RowResult } from "../../../../gpu-backend/engine/row-result.ts";
import { StepModel } from "../../../../src/step-cost/step-model.ts";
import {
  aGenerateRequest,
  anEngine,
  hashBlockReadably,
  runStep,
  tokenRange,
} from "../../../support/engine-builders.ts";

const offered = { looksUp: false, draftTokensMax: 3 };

/** What a step costs whatever it computes, and what each token adds. */
const costs = (fixedMs: number, tokenMs: number) =>
  new StepModel({ fixedMs, tokenMs, attendedPairMs: 0, sequenceMs: 0, kvTokenMs: 0 });

function commitChosen(engine: Engine, batch: Batch, chosen: readonly (readonly number[])[]) {
  const results = chosen.map((tokenIds): RowResult => {
    return { kind: "computed", chosen: tokenIds.map((tokenId) => ({ tokenId })) };
  });
  const events = engine.commit(batch, results);
  engine.checkInvariants();
  return events;
}

/** Plans the next step, which there is. */
function planStep(engine: Engine, nowMs = 0): Batch {
  const { batch } = engine.plan(nowMs);
  engine.checkInvariants();
  if (batch === undefined) throw new Error("There is a step to plan");
  return batch;
}

const draftsOf = (batch: Batch) => batch.rows.map(({ drafts }) => [...(drafts?.tokenIds ?? [])]);

describe("what is guessed", () => {
  test("is verified in one step, counted by what held, and told token by token", () => {
    const engine = anEngine({ speculation: offered });
    for (const id of ["a", "b"]) engine.submit(aGenerateRequest({ id, outputTokensMax: 20 }), 0);
    runStep(engine);
    engine.offerDrafts("a", [1, 2, 3]);
    engine.offerDrafts("b", [4, 5, 6]);
    const batch = planStep(engine);
    expect(draftsOf(batch)).toEqual([
      [1, 2, 3],
      [4, 5, 6],
    ]);
    const events = commitChosen(engine, batch, [
      [1, 2, 7],
      [4, 8],
    ]);
    expect(events.map((event) => event.kind === "token" && event.tokenId)).toEqual([1, 2, 7, 4, 8]);
    expect(engine.counters.drafts).toEqual({
      drafts: 2,
      draftTokens: 6,
      acceptedTokens: 3,
      acceptedByPlace: [2, 1, 0],
    });
  });

  test("waits for the whole prompt: 80 tokens in steps of 50 are 50, 30 and 1 + 3", () => {
    const engine = anEngine({ batchTokensMax: 50, speculation: offered });
    engine.submit(aGenerateRequest({ promptTokens: tokenRange(80), outputTokensMax: 20 }), 0);
    const sizes = [0, 1, 2].map(() => {
      engine.offerDrafts("a", [7, 7, 7]);
      return runStep(engine).batch?.totalTokens;
    });
    expect(sizes).toEqual([50, 30, 4]);
  });

  test("is void once its request has gone on", () => {
    const engine = anEngine({ speculation: offered });
    engine.submit(aGenerateRequest({ outputTokensMax: 20 }), 0);
    engine.offerDrafts("a", [1, 2, 3]);
    runStep(engine);
    expect(draftsOf(planStep(engine))).toEqual([[]]);
  });

  test("ends before a token that ends the output, and leaves room for one behind it", () => {
    const engine = anEngine({ speculation: offered });
    const request = aGenerateRequest({ outputTokensMax: 20, stopTokenIds: [9] });
    engine.submit(request, 0);
    engine.submit({ ...request, id: "short", outputTokensMax: 3 }, 0);
    runStep(engine);
    engine.offerDrafts("a", [1, 9, 2]);
    engine.offerDrafts("short", [1, 2, 3]);
    expect(draftsOf(planStep(engine))).toEqual([[1], [1]]);
  });

  test("of a request that is gone, or in an engine that guesses nothing, changes nothing", () => {
    const engine = anEngine();
    engine.submit(aGenerateRequest({ outputTokensMax: 20 }), 0);
    runStep(engine);
    engine.offerDrafts("a", [1, 2]);
    engine.offerDrafts("nobody", [1, 2]);
    expect(planStep(engine).totalTokens).toBe(1);
  });
});

describe("drafts take only what is left", () => {
  test("of the tokens of a step", () => {
    const engine = anEngine({ batchTokensMax: 8, sequencesMax: 3, speculation: offered });
    for (const id of ["a", "b"]) {
      engine.submit(aGenerateRequest({ id, promptTokens: [1, 2, 3], outputTokensMax: 20 }), 0);
    }
    runStep(engine);
    engine.submit(aGenerateRequest({ id: "c", promptTokens: [4, 5, 6] }), 0);
    for (const id of ["a", "b"]) engine.offerDrafts(id, [1, 2, 3]);
    // 8 tokens: one for each that decodes, three of the prompt, three drafts.
    const batch = planStep(engine);
    expect(batch.rows.map((row) => row.tokens.length)).toEqual([4, 1, 3]);
  });

  test("of the time that keeps a promised gap, what drafting took included", () => {
    const options = { forecast: costs(1, 0.5), keepsTbt: true, speculation: offered };
    const planned = (spentMs: number) => {
      const engine = anEngine(options);
      engine.submit(aGenerateRequest({ outputTokensMax: 20, tbtTargetMs: 3 }), 0);
      runStep(engine);
      engine.offerDrafts("a", [1, 2, 3]);
      return engine.plan(0, spentMs).batch?.totalTokens;
    };
    // 0.9 · 3 ms = 1 + 0.5 · 3.4
    expect(planned(0)).toBe(3);
    expect(planned(0.5)).toBe(2);
    expect(planned(1.2)).toBe(1);
  });

  test("of the blocks: nobody is preempted for them", () => {
    const engine = anEngine({ blockTokens: 4, blockCount: 4, speculation: offered });
    engine.submit(aGenerateRequest({ id: "a", promptTokens: [1, 2, 3], outputTokensMax: 9 }), 0);
    engine.submit(aGenerateRequest({ id: "b", promptTokens: [4, 5, 6], outputTokensMax: 9 }), 0);
    runStep(engine);
    // Four known tokens each: the fifth takes the last two blocks of the pool.
    for (const id of ["a", "b"]) engine.offerDrafts(id, [7, 7, 7]);
    runStep(engine);
    for (const id of ["a", "b"]) engine.offerDrafts(id, [7, 7, 7]);
    const batch = planStep(engine);
    expect(engine.counters.preemptions).toBe(0);
    expect(batch.rows.every(({ blockTable }) => blockTable.length === 2)).toBe(true);
  });

  test("and give back at once the blocks of what did not hold", () => {
    const engine = anEngine({ blockTokens: 4, blockCount: 8, speculation: offered });
    engine.submit(aGenerateRequest({ promptTokens: [1, 2, 3], outputTokensMax: 20 }), 0);
    runStep(engine);
    const usedAfter = (finish: (batch: Batch) => void) => {
      engine.offerDrafts("a", [1, 2, 3]);
      const batch = planStep(engine);
      expect(engine.load().usedBlocks).toBe(2);
      finish(batch);
      engine.checkInvariants();
      return engine.load().usedBlocks;
    };
    expect(usedAfter((batch) => engine.rollback(batch))).toBe(1);
    expect(usedAfter((batch) => commitChosen(engine, batch, [[8]]))).toBe(2);
  });
});

describe("a copied text", () => {
  const speculation = { looksUp: true, draftTokensMax: 4 };
  const text = [1, 2, 3, 4, 5, 6];

  test("is guessed from the prompt, and what is not sure to pay is not verified", () => {
    const engine = anEngine({ speculation, forecast: costs(1, 0.01) });
    const dear = anEngine({ speculation, forecast: costs(0, 1) });
    for (const each of [engine, dear]) {
      each.submit(aGenerateRequest({ promptTokens: [...text, 1, 2], outputTokensMax: 20 }), 0);
      runStep(each, { tokenId: 3 });
    }
    expect(draftsOf(planStep(engine))).toEqual([[4, 5, 6, 1]]);
    expect(draftsOf(planStep(dear))).toEqual([[]]);
  });

  test("no longer pays when its guesses fail, is probed ever more seldom, and pays again", () => {
    const engine = anEngine({
      speculation,
      forecast: costs(0.4, 0.5),
      contextTokens: 4096,
      blockCount: 512,
    });
    const promptTokens = tokenRange(12, 1).flatMap((token) => [1, 1, 1, token + 1]);
    engine.submit(aGenerateRequest({ promptTokens, outputTokensMax: 2000 }), 0);
    runStep(engine, { tokenId: 1 });
    const verified: number[] = [];
    for (let step = 0; step < 300; step++) {
      const batch = planStep(engine);
      const drafts = draftsOf(batch)[0] ?? [];
      verified.push(drafts.length);
      // Always what is not guessed, and such that there is a guess again.
      const chosen = drafts[0] === 1 ? 50 : 1;
      commitChosen(engine, batch, [[chosen]]);
    }
    const probes = verified.flatMap((count, step) => (count > 0 && step > 20 ? [step] : []));
    expect(verified.slice(0, 20).some((count) => count > 0)).toBe(true);
    expect(probes.length).toBeGreaterThan(1);
    expect(probes.length).toBeLessThan(12);
    for (let step = 0; step < 300; step++) {
      const batch = planStep(engine);
      const [drafts = []] = draftsOf(batch);
      verified.push(drafts.length);
      commitChosen(engine, batch, [[...drafts, 1]]);
    }
    expect(verified.slice(-20).every((count) => count === 4)).toBe(true);
  });
});

/** What was guessed comes, and each time a token that was not said before. */
function commitAllDrafts(engine: Engine, batch: Batch): void {
  const next = 100 + (batch.rows[0]?.startPosition ?? 0);
  commitChosen(
    engine,
    batch,
    draftsOf(batch).map((drafts) => [...drafts, next]),
  );
}

describe("draft wishes", () => {
  const speculation = { looksUp: true, drafts: true, draftTokensMax: 4 };
  const options = { speculation, forecast: costs(1, 0.01), hashBlock: hashBlockReadably };

  test("are for those that decode, as deep as pays", () => {
    const engine = anEngine(options);
    expect(engine.draftWishes(costs(0.01, 0))).toEqual([]);
    engine.submit(aGenerateRequest({ promptTokens: [1, 2, 3], outputTokensMax: 20 }), 0);
    expect(engine.draftWishes(costs(0.01, 0))).toEqual([]);
    runStep(engine);
    expect(engine.draftWishes(costs(0.01, 0))).toMatchObject([
      { id: "a", tokens: [1, 2, 3, 7], outputIndex: 1, draftTokens: 4 },
    ]);
    expect(engine.draftWishes(costs(0.4, 0))[0]?.draftTokens).toBeLessThan(4);
    expect(engine.draftWishes(costs(1, 0))).toEqual([]);
  });

  test("where they do not pay are for one request and seldom", () => {
    const engine = anEngine(options);
    for (const id of ["a", "b"]) engine.submit(aGenerateRequest({ id, outputTokensMax: 400 }), 0);
    runStep(engine);
    const asked = Array.from({ length: 800 }, () => engine.draftWishes(costs(5, 0)).length);
    expect(Math.max(...asked)).toBe(1);
    expect(asked.filter((count) => count > 0)).toHaveLength(2);
  });

  test("are for one request until so many guesses were verified as the belief in them weighs", () => {
    const engine = anEngine(options);
    for (const id of ["a", "b"]) engine.submit(aGenerateRequest({ id, outputTokensMax: 400 }), 0);
    runStep(engine);
    const asked = Array.from({ length: 7 }, () => {
      const wishes = engine.draftWishes(costs(0.01, 0));
      for (const { id } of wishes) engine.offerDrafts(id, [8]);
      commitAllDrafts(engine, planStep(engine));
      return wishes.length;
    });
    // The fourth step goes without, to see what it takes.
    expect(asked).toEqual([1, 1, 1, 0, 1, 1, 2]);
  });

  test("where they did pay meanwhile are probed as soon as at first", () => {
    const engine = anEngine(options);
    engine.submit(aGenerateRequest({ outputTokensMax: 400 }), 0);
    runStep(engine);
    const probesIn = (steps: number) =>
      Array.from({ length: steps }, () => engine.draftWishes(costs(5, 0)).length).filter(
        (count) => count > 0,
      ).length;
    expect(probesIn(800)).toBe(2);
    // One in 64 steps looks whether they pay.
    for (let step = 0; step < 64; step++) engine.draftWishes(costs(0.01, 0));
    expect(probesIn(300)).toBe(1);
  });

  test("where they do not pay are looked at again soon when fewer run", () => {
    const engine = anEngine(options);
    for (const id of ["a", "b"]) engine.submit(aGenerateRequest({ id, outputTokensMax: 400 }), 0);
    runStep(engine);
    for (let step = 0; step < 130; step++) engine.draftWishes(costs(5, 0));
    engine.cancel("b");
    const asked = Array.from({ length: 8 }, () => engine.draftWishes(costs(0.01, 0)).length);
    expect(asked).toEqual([0, 0, 0, 0, 0, 0, 0, 1]);
  });

  test("while they pay are left out now and then, soon at first", () => {
    const engine = anEngine(options);
    engine.submit(aGenerateRequest({ outputTokensMax: 400 }), 0);
    runStep(engine);
    const plain = Array.from({ length: 100 }, () => engine.draftWishes(costs(0.01, 0)).length)
      .map((count, step) => (count === 0 ? step : -1))
      .filter((step) => step >= 0);
    expect(plain).toEqual([3, 11, 27, 59, 91]);
  });

  test("of which a wrong belief was the reason end when steps without them have shown it", () => {
    // A step is nearly all its tokens, and is believed not to be: five steps of four guesses show the same.
    const believed = costs(3, 0.7);
    const room = { contextTokens: 1100, blockCount: 500 };
    const engine = anEngine({
      ...options,
      ...room,
      speculation: { ...speculation, looksUp: false },
      forecast: believed,
    });
    engine.submit(aGenerateRequest({ outputTokensMax: 1000 }), 0);
    runStep(engine);
    const asked = Array.from({ length: 200 }, () => {
      const wishes = engine.draftWishes(costs(0.6, 0));
      for (const { id, draftTokens } of wishes) {
        engine.offerDrafts(
          id,
          Array.from({ length: draftTokens }, () => 8),
        );
      }
      const batch = planStep(engine);
      believed.record(workOf(batch), 0.2 + 0.8 * batch.totalTokens);
      commitAllDrafts(engine, batch);
      return wishes.length;
    });
    expect(asked[0]).toBe(1);
    expect(asked.slice(-40)).toEqual(Array.from({ length: 40 }, () => 0));
  });

  test("are not for a text that is being copied", () => {
    const engine = anEngine(options);
    const promptTokens = [1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6];
    engine.submit(aGenerateRequest({ promptTokens, outputTokensMax: 20 }), 0);
    runStep(engine, { tokenId: 7 });
    expect(engine.draftWishes(costs(0.01, 0))).toEqual([]);
  });
});
