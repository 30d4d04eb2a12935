import { describe, expect, test } from "vitest";
import { DraftModel } from "../../gpu-backend/draft-model.ts";
import type { DraftWish } from "../../gpu-backend/engine/speculation/draft-wishes.ts";
import { Sampler } from "../../gpu-backend/engine/sampler.ts";
import { seededRandom } from "../../src/base/random.ts";
import { aGenerateRequest, aSampling, tokenRange } from "../support/engine-builders.ts";
import { type BeforeRun, MemoryExecutor } from "../support/memory-executor.ts";
import { generateAlone } from "../support/paged-memory-model.ts";

const greedy = aSampling();
const drawn = aSampling({ temperature: 0.9, topK: 20, seed: 5 });
const PROMPT = tokenRange(9, 1);

function aDraftModel(beforeRun?: BeforeRun) {
  const executor = new MemoryExecutor(beforeRun);
  const model = new DraftModel({
    executor,
    sampler: new Sampler(executor.vocabularyTokens),
    speed: { stepMs: 1, prefillTokensPerSecond: 1000 },
    nowMs: () => 0,
  });
  return { model, executor };
}

/** What the model itself says behind a prompt. */
function continuation(
  promptTokens: readonly number[],
  outputTokensMax: number,
  sampling = drawn,
): number[] {
  const request = aGenerateRequest({ promptTokens, outputTokensMax, sampling });
  const limits = { vocabularyTokens: 64, sequenceTokensMax: 512 };
  return generateAlone(request, limits).chosen.map(({ tokenId }) => tokenId);
}

const aText = (length: number, from: number) => tokenRange(length, from).map((token) => token % 64);

function aWish(overrides: Partial<DraftWish> = {}): DraftWish {
  return { id: "a", tokens: PROMPT, sampling: drawn, outputIndex: 0, draftTokens: 4, ...overrides };
}

describe("DraftModel", () => {
  test("drafts what the served model says where both are the same, draw by draw", async () => {
    const { model } = aDraftModel();
    const drafted = await model.draft([aWish()]);
    expect(drafted.get("a")).toEqual(continuation(PROMPT, 4));
    model.checkInvariants();
    const tokens = [...PROMPT, ...continuation(PROMPT, 6)];
    const later = await model.draft([aWish({ tokens, outputIndex: 6 })]);
    expect(later.get("a")).toEqual(continuation(PROMPT, 10).slice(6));
  });

  test("reads only what is new, and anew what was not kept of its drafts", async () => {
    const { model, executor } = aDraftModel();
    const output = continuation(PROMPT, 4);
    await model.draft([aWish()]);
    const { runs } = executor;
    const kept = [...PROMPT, ...output.slice(0, 3)];
    const other = [...kept, 63];
    const drafted = await model.draft([aWish({ tokens: other, sampling: greedy })]);
    expect(drafted.get("a")).toEqual(continuation(other, 4, greedy));
    expect(executor.runs - runs).toBe(4);
    model.checkInvariants();
  });

  test("in random orders of requests, of what is kept and forgotten, drafts what it would alone", async () => {
    const random = seededRandom(3);
    const upTo = (limit: number) => Math.floor(random() * limit);
    const { model, executor } = aDraftModel();
    const texts = new Map<string, number[]>();
    let shortfalls = 0;
    for (let round = 0; round < 150; round++) {
      const wishes = ["a", "b", "c", "d", "e"].flatMap((id): DraftWish[] => {
        if (random() < 0.4) return [];
        const text = texts.get(id) ?? [...tokenRange(1 + upTo(50), upTo(10))];
        texts.set(id, text);
        // Of what was drafted some hold, and what follows is another token.
        text.push(...Array.from({ length: 1 + upTo(4) }, () => upTo(64)));
        return [
          {
            id,
            tokens: [...text],
            sampling: greedy,
            outputIndex: text.length,
            draftTokens: 1 + upTo(4),
          },
        ];
      });
      const drafted = await model.draft(wishes);
      model.checkInvariants();
      for (const wish of wishes) {
        const expected = continuation(wish.tokens, wish.draftTokens, greedy);
        const tokens = drafted.get(wish.id) ?? [];
        expect(tokens, `round ${round}`).toEqual(expected.slice(0, tokens.length));
        // Texts that several have lost at once are not all read, and written on, in one call.
        if (tokens.length < expected.length) shortfalls += 1;
      }
      const gone = ["a", "b", "c", "d", "e"][upTo(8)];
      if (gone !== undefined && random() < 0.3) {
        model.forget(gone);
        texts.delete(gone);
      }
    }
    expect(executor.runs).toBeGreaterThan(150);
    expect(shortfalls).toBeLessThan(60);
  });

  test("a long text is read piece by piece, and those that have read theirs are not held up", async () => {
    const { model } = aDraftModel();
    const long = aText(200, 0);
    const wishes = [
      aWish({ id: "long", tokens: long, sampling: greedy, draftTokens: 2 }),
      aWish({ draftTokens: 2 }),
    ];
    const first = await model.draft(wishes);
    expect(first.has("long")).toBe(false);
    expect(first.get("a")).toHaveLength(2);
    const second = await model.draft(wishes);
    expect(second.get("long")).toEqual(continuation(long, 2, greedy));
  });

  test("texts asked about longest ago make room, and one that never fits is not drafted", async () => {
    const { model } = aDraftModel();
    for (const [index, id] of ["a", "b", "c"].entries()) {
      await model.draft([aWish({ id, tokens: aText(100, index), draftTokens: 1 })]);
      model.checkInvariants();
    }
    // A pool of 256 tokens holds two of them.
    expect(model.textCount).toBe(2);
    const never = aWish({ id: "d", tokens: aText(300, 0) });
    expect((await model.draft([never])).size).toBe(0);
    model.checkInvariants();
    expect(model.textCount).toBeLessThanOrEqual(2);
  });

  test("a step that fails voids what was computed, and nothing is left of it", async () => {
    const { model } = aDraftModel((_, run) => {
      if (run === 2) throw new Error("no runtime");
    });
    await expect(model.draft([aWish()])).rejects.toThrow("no runtime");
    expect(model.textCount).toBe(0);
    model.checkInvariants();
    expect((await model.draft([aWish()])).get("a")).toEqual(continuation(PROMPT, 4));
  });
});
