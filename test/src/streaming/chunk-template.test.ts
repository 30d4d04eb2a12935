import * as fc from "fast-check";
import { describe, expect, test, vi } from "vitest";
import { PROGRESS_MEMBER } from "../../../src/protocol/continuation.ts";
import { ModelId } from "../../../src/protocol/ids.ts";
import { editMembers } from "../../../src/protocol/json-text.ts";
import { UpstreamChunk } from "../../../src/protocol/upstream-answer.ts";
import { ChunkTemplate } from "../../../src/streaming/chunk-template.ts";
import { TokenStream } from "../../../src/streaming/token-stream.ts";

const ALIAS = { model: '"alias"', usage: undefined, [PROGRESS_MEMBER]: undefined };

/** What a client gets of a chunk, by the long way. */
const toFrame = (json: string) => `data: ${editMembers(json, ALIAS)}\n\n`;

const chat = (content: string, rest: object = {}) =>
  JSON.stringify({
    id: "c",
    model: "up",
    choices: [{ index: 0, delta: { content }, logprobs: null, finish_reason: null }],
    usage: null,
    ...rest,
  });
const completion = (text: string) =>
  JSON.stringify({ choices: [{ text, index: 0, finish_reason: null }], model: "up" });
const telling = (content: string, tokenIds: readonly number[]) =>
  chat(content, { [PROGRESS_MEMBER]: { token_ids: tokenIds } });

function templateOf(json: string, tellsTokens = false): ChunkTemplate | undefined {
  const chunk = UpstreamChunk.parse(JSON.parse(json));
  return ChunkTemplate.of(chunk, json, toFrame(json), tellsTokens);
}

const someText = fc.string({ unit: "binary", minLength: 1, maxLength: 12 });
const someIds = fc.array(fc.nat(), { minLength: 1, maxLength: 4 });

describe("a chunk like the one before", () => {
  test.each([
    ["a chat", chat],
    ["a completion", completion],
  ])("is what it would be by the long way, of %s", (_, toJson) => {
    fc.assert(
      fc.property(someText, someText, (first, next) => {
        const json = toJson(next);
        const read = templateOf(toJson(first))?.read(json);
        expect(read).toEqual({ clientFrame: toFrame(json), tokenIds: undefined });
      }),
    );
  });

  test("tells its tokens, and its client nothing of them", () => {
    fc.assert(
      fc.property(someText, someIds, someText, someIds, (first, ids, next, nextIds) => {
        const json = telling(next, nextIds);
        const read = templateOf(telling(first, ids), true)?.read(json);
        expect(read).toEqual({ clientFrame: toFrame(json), tokenIds: nextIds });
      }),
    );
  });

  test("ends where the one before ends", () => {
    expect(templateOf(chat("a"))?.read(`${chat("b")}}`)).toBeUndefined();
  });

  test("is JSON: what is not is not like it, whatever is changed in it", () => {
    const junk = fc.constantFrom('"', "\\", "\n", "{", "}", ",", "u", "0", "[", "\u0000", "");
    fc.assert(
      fc.property(someText, fc.nat(), fc.nat({ max: 3 }), junk, (text, place, cut, inserted) => {
        const json = telling(text, [1, 20]);
        const at = place % (json.length + 1);
        const changed = json.slice(0, at) + inserted + json.slice(at + cut);
        const read = templateOf(telling("a", [7]), true)?.read(changed);
        if (read === undefined) return;
        const chunk = UpstreamChunk.parse(JSON.parse(changed));
        expect(chunk[PROGRESS_MEMBER]?.token_ids).toEqual(read.tokenIds);
        expect(read.clientFrame).toBe(toFrame(changed));
      }),
      { numRuns: 2_000 },
    );
  });
});

test.each([
  ["has no text", chat("")],
  ["ends", chat("a").replace('"finish_reason":null', '"finish_reason":"stop"')],
  ["brings counts", chat("a", { usage: { prompt_tokens: 1, completion_tokens: 1 } })],
  ["is of two choices", chat("a").replace('"choices":[', '"choices":[{"index":1},')],
  ["has its text in two places", chat("a", { echo: { content: "a" } })],
  [
    "has another text where its text would be",
    chat("a").replace('"content":"a"', '"content" : "a","x":{"content":"b"}'),
  ],
  ["tells no tokens where they are told", chat("a")],
])("of a chunk that %s no other one is taken to be like it", (name, json) => {
  expect(templateOf(json, name.startsWith("tells"))).toBeUndefined();
});

const push = (stream: TokenStream, json: string, nowMs = 1) => stream.push({ data: json }, nowMs);
const open = (tokensKeptMax?: number) =>
  new TokenStream({
    modelId: ModelId.parse("alias"),
    choiceCount: 1,
    includeUsage: false,
    ...(tokensKeptMax !== undefined && { tokensKeptMax }),
  });

describe("a stream of such chunks", () => {
  test("says, counts and times the same as of chunks that all differ", () => {
    fc.assert(
      fc.property(fc.array(someText, { minLength: 3 }), (texts) => {
        const [stream, reference] = [open(), open()];
        const said = texts.map((text, index) => push(stream, chat(text), index * index));
        for (const [index, text] of texts.entries()) {
          push(reference, chat(text, { created: index }), index * index);
        }
        expect(said).toEqual(texts.map((text) => toFrame(chat(text))));
        for (const each of ["outputChunks", "firstTokenAtMs", "tbtMaxMs", "phase"] as const) {
          expect(stream[each]).toEqual(reference[each]);
        }
      }),
    );
  });

  test("is parsed where it may say something else: its role, its finish, its counts, an error", () => {
    const parsed = vi.spyOn(JSON, "parse");
    const parsedOf = (textCount: number, ...last: string[]): number => {
      const stream = open();
      parsed.mockClear();
      push(stream, chat("").replace('"content":""', '"role":"assistant"'));
      for (let index = 0; index < textCount; index += 1) push(stream, chat(`${index} "\u00e9"`));
      for (const json of last) push(stream, json);
      return parsed.mock.calls.length;
    };
    const finish = chat("").replace('"content":""', "").replace("null}]", '"stop"}]');
    const counts = chat("", { choices: [], usage: { prompt_tokens: 1, completion_tokens: 9 } });
    const few = parsedOf(3);
    expect(parsedOf(1_000)).toBe(few);
    // The role, and of the first text itself and its text.
    expect(few).toBe(3);
    expect(parsedOf(1_000, finish, counts)).toBe(few + 2);
    expect(parsedOf(1_000, '{"error":{"message":"no"}}')).toBe(few + 1);
  });

  test("keeps the tokens of all of them, so that another replica can go on", () => {
    const stream = open(100);
    const start = { seed: 1, system_fingerprint: "f", output_tokens_max: 9, prompt_tokens: 3 };
    const first = { token_ids: [5], start: { ...start, cached_tokens: 0 } };
    push(stream, chat("a", { [PROGRESS_MEMBER]: first }));
    for (const id of [6, 7, 8]) push(stream, telling("b", [id, id]));
    stream.breakOff();
    expect(stream.interrupted?.continuation.token_ids).toEqual([5, 6, 6, 7, 7, 8, 8]);
  });

  test("breaks at the first that is no JSON, as ever", () => {
    const stream = open();
    for (const text of ["a", "b", "c"]) push(stream, chat(text));
    expect(push(stream, chat("d").replace('"d"', '"\\d"'))).toContain("upstream_error");
    expect(stream.phase).toBe("broken");
  });

  test("reads an error that looks like a chunk as an error", () => {
    const stream = open();
    for (const text of ["a", "b"]) push(stream, chat(text));
    stream.push({ event: "error", data: chat("c") }, 1);
    expect(stream.phase).toBe("broken");
  });
});
