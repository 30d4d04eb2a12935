import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { ModelId } from "../../../src/protocol/ids.ts";
import type { SseFrame } from "../../../src/protocol/sse.ts";
import { EmittedTokens } from "../../../src/streaming/emitted-tokens.ts";
import type { InterruptedAnswer } from "../../../src/streaming/interrupted-answer.ts";
import { TokenStream } from "../../../src/streaming/token-stream.ts";

const START = {
  seed: 3,
  system_fingerprint: "fp",
  output_tokens_max: 50,
  prompt_tokens: 9,
  cached_tokens: 4,
};
const TOKENS_MAX = 100;
const UPSTREAM_ERROR = { code: "upstream_error" } as const;

const openStream = (continues?: InterruptedAnswer, tokensKeptMax = TOKENS_MAX) =>
  new TokenStream({
    modelId: ModelId.parse("alias"),
    choiceCount: 1,
    includeUsage: true,
    tokensKeptMax,
    ...(continues !== undefined && { continues }),
  });

interface ChunkParts {
  readonly text?: string;
  readonly finish?: string;
  /** Absent: it comes together with the next chunk. */
  readonly tokenIds?: readonly number[] | undefined;
  readonly isFirst?: boolean;
  readonly id?: string;
}

function chunk({ text = "", finish, tokenIds, isFirst = false, id = "one" }: ChunkParts): SseFrame {
  const progress = { token_ids: tokenIds, ...(isFirst && { start: START }) };
  const body = {
    id,
    created: id.length,
    model: "up",
    choices: [
      {
        index: 0,
        delta: { ...(isFirst && { role: "assistant" }), content: text },
        finish_reason: finish ?? null,
      },
    ],
    ...(tokenIds !== undefined && { sluice_progress: progress }),
  };
  return { data: JSON.stringify(body) };
}

const DONE: SseFrame = { data: "[DONE]" };
const first = chunk({ text: "a", tokenIds: [1], isFirst: true });

const pushAll = (stream: TokenStream, frames: readonly SseFrame[], atMs = 0): string =>
  frames.map((frame, index) => stream.push(frame, atMs + index * 10)).join("");

function bodiesOf(text: string) {
  const datas = text.split("\n\n").flatMap((event) => /^data: (.*)$/m.exec(event)?.[1] ?? []);
  return datas.map((data) => (data === "[DONE]" ? data : JSON.parse(data)));
}

const textOf = (text: string): string =>
  bodiesOf(text)
    .map((body) => body.choices?.[0]?.delta.content ?? "")
    .join("");

describe("a TokenStream whose replica tells its tokens", () => {
  test("is interrupted by what would break another one, and says nothing of it", () => {
    const stream = openStream();
    expect(textOf(pushAll(stream, [first, chunk({ text: "b", tokenIds: [2, 3] })]))).toBe("ab");
    expect(stream.end()).toBe("");
    expect([stream.phase, stream.isOver]).toEqual(["interrupted", true]);
    expect(stream.interrupted).toEqual({
      continuation: { ...START, token_ids: [1, 2, 3] },
      identity: { id: "one", created: 3 },
      firstTokenAtMs: 0,
      lastTokenAtMs: 10,
      tbtMaxMs: 10,
      outputChunks: 2,
    });
    expect(stream.outputTokens).toBe(3);
  });

  test("is broken in the end where nobody goes on, and only once", () => {
    const stream = openStream();
    pushAll(stream, [first]);
    stream.end({ code: "timeout" });
    expect(stream.problem).toEqual({ code: "timeout" });
    expect(stream.fail({ code: "timeout" })).toContain("event: error");
    expect(stream.fail({ code: "timeout" })).toBe("");
    expect([stream.phase, stream.interrupted]).toEqual(["broken", undefined]);
  });

  test("shows nothing that its tokens do not account for", () => {
    const stream = openStream();
    pushAll(stream, [first]);
    expect(stream.push(chunk({ text: "b" }), 10)).toBe("");
    expect(textOf(stream.push(chunk({ text: "c", tokenIds: [2, 3] }), 10))).toBe("bc");
    stream.push(chunk({ text: "d" }), 20);
    stream.end();
    expect(stream.interrupted?.continuation.token_ids).toEqual([1, 2, 3]);
    expect(textOf(stream.fail(UPSTREAM_ERROR))).toBe("");
  });

  test.each([
    ["nothing was shown", [chunk({ tokenIds: [1], isFirst: true })], UPSTREAM_ERROR],
    ["it has not said how it began", [chunk({ text: "a", tokenIds: [1] })], UPSTREAM_ERROR],
    ["all text is there", [first, chunk({ finish: "stop", tokenIds: [] })], UPSTREAM_ERROR],
    ["its request breaks engines", [first], { code: "internal_error" } as const],
  ])("is broken at once where %s", (_, frames, problem) => {
    const stream = openStream();
    pushAll(stream, frames);
    expect(stream.breakOff(problem)).toContain("event: error");
    expect([stream.phase, stream.interrupted]).toEqual(["broken", undefined]);
  });

  test("is broken at once where it has told more tokens than are kept, and shows them all", () => {
    const stream = openStream(undefined, 2);
    const text = pushAll(stream, [
      first,
      chunk({ text: "b", tokenIds: [2, 3] }),
      chunk({ text: "c" }),
    ]);
    expect(textOf(text)).toBe("abc");
    expect(stream.outputTokens).toBe(3);
    expect(stream.breakOff()).toContain("event: error");
  });

  test("keeps to itself what it was told of tokens", () => {
    const finish = chunk({ finish: "stop", tokenIds: [2] });
    expect(pushAll(openStream(), [first, finish, DONE])).not.toContain("sluice_");
    const unasked = new TokenStream({
      modelId: ModelId.parse("alias"),
      choiceCount: 1,
      includeUsage: false,
    });
    expect(pushAll(unasked, [first, finish, DONE])).not.toContain("sluice_");
  });
});

function anInterrupted(): InterruptedAnswer {
  const stream = openStream();
  pushAll(stream, [first, chunk({ text: "b", tokenIds: [2] })]);
  stream.end();
  if (stream.interrupted === undefined) throw new Error("It was interrupted");
  return stream.interrupted;
}

describe("a TokenStream that goes on with an interrupted answer", () => {
  test("is the same answer: in its names, its first token, its gaps and its count", () => {
    const stream = openStream(anInterrupted());
    expect([stream.hasReleased, stream.outputChunks, stream.firstTokenAtMs]).toEqual([false, 2, 0]);
    const finish = chunk({ finish: "stop", tokenIds: [4], id: "other" });
    const rest = [chunk({ text: "c", tokenIds: [3], id: "other" }), finish, DONE];
    const bodies = bodiesOf(pushAll(stream, rest, 500));
    expect(bodies).toMatchObject([{ id: "one", created: 3 }, { id: "one", created: 3 }, "[DONE]"]);
    expect([stream.firstTokenAtMs, stream.tbtMaxMs, stream.outputTokens]).toEqual([0, 490, 4]);
    expect([stream.ownFirstTokenAtMs, stream.ownDecodeMs]).toEqual([500, 0]);
  });

  test("is of no use where its replica has nothing new", () => {
    const stream = openStream(anInterrupted());
    expect(stream.end()).toContain("event: error");
    expect([stream.phase, stream.hasReleased]).toEqual(["broken", false]);
  });
});

/** An answer as parts that are written together: each the texts of its chunks, and how many tokens it is. */
const Parts = fc.array(
  fc.record({
    texts: fc.array(fc.string({ minLength: 1 }), { minLength: 1, maxLength: 3 }),
    tokens: fc.integer({ min: 1, max: 3 }),
  }),
  { minLength: 1, maxLength: 12 },
);
type Part = typeof Parts extends fc.Arbitrary<(infer P)[]> ? P : never;

/** What a replica sends of an answer whose first `from` parts are there; its tokens are 0, 1, 2 … */
function framesFrom(parts: readonly Part[], from: number): SseFrame[] {
  const id = `from-${from}`;
  let told = parts.slice(0, from).reduce((sum, { tokens }) => sum + tokens, 0);
  const frames = parts.slice(from).flatMap(({ texts, tokens }, index) => {
    const tokenIds = Array.from({ length: tokens }, (_, place) => told + place);
    told += tokens;
    return texts.map((text, place) => {
      const isLast = place === texts.length - 1;
      const isFirst = from + index === 0 && isLast;
      return chunk({ text, id, isFirst, tokenIds: isLast ? tokenIds : undefined });
    });
  });
  return [...frames, chunk({ finish: "stop", tokenIds: [], id }), DONE];
}

/** How many parts so many tokens are. */
function partsOf(parts: readonly Part[], tokenCount: number): number {
  let left = tokenCount;
  return parts.findIndex(({ tokens }) => (left -= tokens) < 0) + (left >= 0 ? parts.length + 1 : 0);
}

test("however often and wherever an answer is cut, its parts make the whole", () => {
  let interruptions = 0;
  fc.assert(
    fc.property(Parts, fc.array(fc.nat(20), { maxLength: 5 }), (parts, cuts) => {
      let continues: InterruptedAnswer | undefined;
      let text = "";
      for (const cut of [...cuts, Infinity]) {
        const from = partsOf(parts, continues?.continuation.token_ids.length ?? 0);
        const stream = openStream(continues);
        const shown = pushAll(stream, framesFrom(parts, from).slice(0, cut)) + stream.end();
        // Nothing of it was shown, so that it is begun anew, or gone on with from where it was.
        if (stream.phase === "broken" && !stream.hasReleased) continue;
        text += shown;
        if (stream.phase === "ended") break;
        continues = stream.interrupted;
        interruptions += 1;
      }
      const bodies = bodiesOf(text);
      expect(textOf(text)).toBe(parts.flatMap(({ texts }) => texts).join(""));
      expect(bodies.at(-1)).toBe("[DONE]");
      expect(new Set(bodies.slice(0, -1).map(({ id }) => id))).toEqual(new Set(["from-0"]));
    }),
  );
  expect(interruptions).toBeGreaterThan(10);
});

describe("EmittedTokens", () => {
  test("are those of before, and then what is added", () => {
    const tokens = new EmittedTokens(10, { ...START, token_ids: [1, 2] });
    tokens.add({ token_ids: [3], start: { ...START, seed: 99 } });
    expect(tokens.continuation).toEqual({ ...START, token_ids: [1, 2, 3] });
  });

  test("are given up beyond their bound, and hold nothing any more", () => {
    const tokens = new EmittedTokens(2);
    tokens.add({ token_ids: [1, 2], start: START });
    expect(tokens.isKept).toBe(true);
    tokens.add({ token_ids: [3] });
    tokens.add({ token_ids: [] });
    expect([tokens.isKept, tokens.count, tokens.continuation]).toEqual([false, 0, undefined]);
  });
});
