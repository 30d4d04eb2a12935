import assert from "node:assert/strict";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { AnswerProgress, Continuation } from "../../../src/protocol/continuation.ts";
import { CONTINUATION_MEMBER, PROGRESS_MEMBER } from "../../../src/protocol/continuation.ts";
import { ENGINE_HEADERS } from "../../../src/protocol/headers.ts";
import {
  ENGINE_START_MS_MAX,
  LONG_TASK,
  question,
  readChunks,
  readProblem,
  startEngine,
  type TestEngine,
} from "../../support/running-engine.ts";

const CHATS = "/v1/chat/completions";
const COMPLETIONS = "/v1/completions";
const TELLING = { headers: { [ENGINE_HEADERS.tellTokens]: "1" } };
const STREAMED = { stream: true, stream_options: { include_usage: true } };
/** Of one answer; a longer one is cut at so many places, evenly. */
const CUTS_MAX = 6;
const CUTS_MS_MAX = 120_000;

interface Delta {
  readonly role?: string;
  readonly content?: string;
  readonly tool_calls?: readonly {
    index: number;
    function: { name?: string; arguments: string };
  }[];
}

/** A chunk of either API, with what it says to a gateway. */
interface Chunk {
  readonly choices: readonly {
    readonly delta?: Delta;
    readonly text?: string;
    readonly finish_reason: string | null;
    readonly logprobs: Readonly<Record<string, unknown>> | null;
  }[];
  readonly usage?: object | null;
  readonly [PROGRESS_MEMBER]?: AnswerProgress;
}

/** What a client makes of chunks. Ids of calls are told once, by whoever begins the call. */
function messageOf(chunks: readonly Chunk[]) {
  const choices = chunks.flatMap((chunk) => chunk.choices);
  const calls: string[] = [];
  const logprobs = new Map<string, unknown[]>();
  for (const { delta, logprobs: lists } of choices) {
    for (const { index, function: piece } of delta?.tool_calls ?? []) {
      calls[index] = (calls[index] ?? "") + (piece.name ?? "") + piece.arguments;
    }
    for (const [name, list] of Object.entries(lists ?? {})) {
      if (Array.isArray(list)) logprobs.set(name, [...(logprobs.get(name) ?? []), ...list]);
    }
  }
  return {
    roles: choices.flatMap(({ delta }) => delta?.role ?? []),
    text: choices.map(({ delta, text }) => delta?.content ?? text ?? "").join(""),
    calls,
    logprobs: Object.fromEntries(logprobs),
    finishReasons: choices.flatMap(({ finish_reason: reason }) => reason ?? []),
    usages: chunks.flatMap(({ usage }) => usage ?? []),
  };
}

const tokensOf = (chunks: readonly Chunk[]): number[] =>
  chunks.flatMap((chunk) => chunk[PROGRESS_MEMBER]?.token_ids ?? []);

/** What a gateway asks for that has got these chunks. */
function continuationOf(chunks: readonly Chunk[]): Continuation {
  const start = chunks[0]?.[PROGRESS_MEMBER]?.start;
  assert(start !== undefined, "the first chunk tells how the answer began");
  return { ...start, token_ids: tokensOf(chunks) };
}

async function ask(engine: TestEngine, path: string, body: object): Promise<Chunk[]> {
  return readChunks<Chunk>(await engine.post(path, { ...STREAMED, ...body }, TELLING));
}

/** Where a gateway can be left with an answer: behind any chunk that says its tokens and is not the end. */
function cutsOf(whole: readonly Chunk[]): number[] {
  const isEnd = ({ choices }: Chunk) => choices.some((choice) => choice.finish_reason !== null);
  const chunks = whole.slice(0, whole.findIndex(isEnd));
  const all = chunks.flatMap((chunk, index) =>
    tokensOf(chunks.slice(0, index + 1)).length > 0 && chunk[PROGRESS_MEMBER] !== undefined
      ? [index + 1]
      : [],
  );
  const every = Math.ceil(all.length / CUTS_MAX);
  // The end of an answer is where most can go wrong.
  return all.filter((_, index) => index % every === 0 || index >= all.length - 3);
}

/** Cuts an answer everywhere, and has another engine go on. Returns how often. */
async function continueEverywhere(
  [first, second]: readonly [TestEngine, TestEngine],
  path: string,
  body: object,
): Promise<number> {
  const whole = await ask(first, path, body);
  const cuts = cutsOf(whole);
  for (const cut of cuts) {
    const told = whole.slice(0, cut);
    const continuation = continuationOf(told);
    const rest = await ask(second, path, { ...body, [CONTINUATION_MEMBER]: continuation });
    const place = `behind chunk ${cut} of ${whole.length}`;
    const tokens = [...tokensOf(told), ...tokensOf(rest)];
    const message = messageOf([...told, ...rest]);
    expect({ place, tokens, ...message }).toEqual({
      place,
      tokens: tokensOf(whole),
      ...messageOf(whole),
    });
  }
  return cuts.length;
}

const FOX = { messages: [question("Tell me a story about a fox named Lily.")] };
const CHINESE = { messages: [question("写一个关于兔子的小故事。")], max_tokens: 24 };
const COUNT = { messages: [question("Count from 1 to 12.")], temperature: 0 };
const DRAWN = { temperature: 0.9, top_p: 0.95 };
const TOOLS = ["get_weather", "set_light"].map((name) => ({
  type: "function",
  function: {
    name,
    parameters: {
      type: "object",
      properties: { city: { type: "string", maxLength: 12 } },
      required: ["city"],
      additionalProperties: false,
    },
  },
}));
const SCHEMA = {
  type: "object",
  properties: { name: { enum: ["Lily", "Tom"] }, text: { type: "string", maxLength: 20 } },
  required: ["name", "text"],
  additionalProperties: false,
};
const AS_JSON = {
  response_format: { type: "json_schema", json_schema: { name: "a", schema: SCHEMA } },
};

describe("an answer that another engine goes on with is the one that it would have been", () => {
  let engines: readonly [TestEngine, TestEngine];
  beforeAll(async () => {
    engines = [await startEngine(), await startEngine(["--max-batch-tokens", "64"])];
  }, ENGINE_START_MS_MAX);
  afterAll(() => Promise.all(engines.map((engine) => engine.stop())));

  test.each([
    ["that is greedy", CHATS, COUNT],
    ["that is drawn without a seed of the client's", CHATS, { ...FOX, ...DRAWN, max_tokens: 30 }],
    ["with a seed that no integer holds", CHATS, { ...FOX, seed: 2 ** 62, max_tokens: 20 }],
    ["whose characters are of several tokens", CHATS, CHINESE],
    ["that a stop string ends", CHATS, { ...COUNT, stop: ["7, 8", "10"] }],
    [
      "whose stop strings hold text back",
      CHATS,
      { ...COUNT, stop: [", 3, 5", "1, 2, 4", "12 and"] },
    ],
    [
      "with a stop string that stays",
      CHATS,
      { ...COUNT, stop: ["5"], include_stop_str_in_output: true },
    ],
    ["with a minimum of tokens", CHATS, { ...COUNT, stop: ["2"], min_tokens: 12, max_tokens: 30 }],
    ["that its limit ends", CHATS, { ...COUNT, max_tokens: 9 }],
    [
      "with penalties",
      CHATS,
      {
        ...FOX,
        ...DRAWN,
        max_tokens: 30,
        frequency_penalty: 1,
        presence_penalty: 0.5,
        repetition_penalty: 1.3,
      },
    ],
    [
      "with log probabilities",
      CHATS,
      { ...CHINESE, logprobs: true, top_logprobs: 3, temperature: 1 },
    ],
    [
      "with log probabilities of text that is held back",
      CHATS,
      { ...COUNT, stop: ["3, 4, 6", "2, 3, 9"], logprobs: true, top_logprobs: 1 },
    ],
    ["that is held to a schema", CHATS, { ...FOX, ...AS_JSON, ...DRAWN, max_tokens: 40 }],
    [
      "that is held to a schema, with log probabilities",
      CHATS,
      { ...FOX, ...AS_JSON, logprobs: true, max_tokens: 40 },
    ],
    [
      "that calls tools",
      CHATS,
      { ...FOX, tools: TOOLS, tool_choice: "required", temperature: 1, max_tokens: 50 },
    ],
    [
      "that calls tools, with log probabilities",
      CHATS,
      { ...FOX, tools: TOOLS, tool_choice: "required", logprobs: true, max_tokens: 50 },
    ],
    ["that may call tools and does not", CHATS, { ...FOX, tools: TOOLS, max_tokens: 16 }],
    ["that is a completion", COMPLETIONS, { prompt: "Once upon a time", max_tokens: 20, ...DRAWN }],
    [
      "that is a completion with log probabilities",
      COMPLETIONS,
      { prompt: "从前有一只", max_tokens: 20, logprobs: 2 },
    ],
  ])("%s", { timeout: CUTS_MS_MAX }, async (_, path, body) => {
    expect(await continueEverywhere(engines, path, body)).toBeGreaterThan(3);
  });

  test.each([
    ["by its end token", { ...COUNT, max_tokens: 60 }],
    ["by its limit", { ...COUNT, max_tokens: 9 }],
    ["by a stop string", { ...COUNT, stop: ["7, 8"] }],
    ["by what its schema allows", { ...FOX, ...AS_JSON, max_tokens: 60 }],
  ])("also one that was over %s, of which only the end is told then", async (_, body) => {
    const whole = await ask(engines[0], CHATS, body);
    const continuation = continuationOf(whole);
    const rest = await ask(engines[1], CHATS, { ...body, [CONTINUATION_MEMBER]: continuation });
    const { finishReasons, usages } = messageOf(whole);
    expect(messageOf(rest)).toMatchObject({ text: "", finishReasons, usages });
    expect(tokensOf(rest)).toEqual([]);
  });

  test("also by a third one", async () => {
    const body = { ...FOX, ...DRAWN, max_tokens: 24 };
    const whole = await ask(engines[0], CHATS, body);
    const told = whole.slice(0, 4);
    const again = { ...body, [CONTINUATION_MEMBER]: continuationOf(told) };
    const second = (await ask(engines[1], CHATS, again)).slice(0, 5);
    const both = [...told, ...second];
    const third = await ask(engines[0], CHATS, {
      ...body,
      [CONTINUATION_MEMBER]: continuationOf(both),
    });
    expect(messageOf([...both, ...third])).toEqual(messageOf(whole));
  });

  test("and says at its head how much was there", async () => {
    const told = (await ask(engines[0], CHATS, COUNT)).slice(0, 3);
    const continuation = continuationOf(told);
    const body = { ...COUNT, ...STREAMED, [CONTINUATION_MEMBER]: continuation };
    const response = await engines[1].post(CHATS, body, TELLING);
    const head = response.headers.get(ENGINE_HEADERS.tellTokens);
    expect(head).toBe(String(continuation.token_ids.length));
    await response.text();
    const fresh = await engines[1].post(CHATS, { ...COUNT, ...STREAMED }, TELLING);
    expect(fresh.headers.get(ENGINE_HEADERS.tellTokens)).toBe("0");
    await fresh.text();
  });

  test("and leaves nothing behind when its client goes", async () => {
    const told = (await ask(engines[0], CHATS, { ...LONG_TASK, max_tokens: 20 })).slice(0, 5);
    const { output_tokens_max: _, ...start } = continuationOf(told);
    const plain = await ask(engines[1], CHATS, { ...LONG_TASK, max_tokens: 400 });
    const { output_tokens_max: most } = continuationOf(plain);
    const leaving = new AbortController();
    const response = await engines[1].chat(
      {
        ...LONG_TASK,
        ...STREAMED,
        max_tokens: 400,
        [CONTINUATION_MEMBER]: { ...start, output_tokens_max: most },
      },
      { ...TELLING, signal: leaving.signal },
    );
    await response.body?.getReader().read();
    leaving.abort();
    expect(await engines[1].idleKvUsage()).toBe(0);
  });

  test.each([
    ["of other weights or arithmetic", { system_fingerprint: "fp_other" }],
    ["of a prompt of another length", { prompt_tokens: 3 }],
    ["of an output that ends elsewhere", { output_tokens_max: 1000 }],
  ])("but one %s is refused, as another engine may do it", async (_, change) => {
    const continuation = continuationOf((await ask(engines[0], CHATS, COUNT)).slice(0, 3));
    const body = { ...COUNT, ...STREAMED, [CONTINUATION_MEMBER]: { ...continuation, ...change } };
    const problem = await readProblem(await engines[1].chat(body));
    expect(problem).toMatchObject({ status: 412, code: "continuation_mismatch" });
  });

  test("but one whose last token comes out otherwise is refused before anything is told", async () => {
    const continuation = continuationOf((await ask(engines[0], CHATS, COUNT)).slice(0, 4));
    const token_ids = [...continuation.token_ids.slice(0, -1), 300];
    const body = { ...COUNT, ...STREAMED, [CONTINUATION_MEMBER]: { ...continuation, token_ids } };
    const problem = await readProblem(await engines[1].chat(body));
    expect(problem).toMatchObject({ status: 412, code: "continuation_mismatch" });
    expect(await engines[1].idleKvUsage()).toBe(0);
  });

  test("but tokens that its schema forbids end their own request and no other", async () => {
    const body = { ...FOX, ...AS_JSON, max_tokens: 40 };
    const [whole, beside] = await Promise.all([
      ask(engines[0], CHATS, body),
      ask(engines[1], CHATS, body),
    ]);
    const continuation = continuationOf(whole.slice(0, 4));
    const token_ids = continuation.token_ids.map(() => 300);
    const bad = { ...body, ...STREAMED, [CONTINUATION_MEMBER]: { ...continuation, token_ids } };
    const [problem, good] = await Promise.all([
      engines[1].chat(bad).then(readProblem),
      ask(engines[1], CHATS, body),
    ]);
    expect(problem.status).toBe(500);
    expect(messageOf(good)).toMatchObject({ finishReasons: messageOf(beside).finishReasons });
  });

  test.each([
    ["several choices", { ...COUNT, n: 2 }],
    ["no stream", { ...COUNT, stream: false, stream_options: null }],
    ["a token that there is not", { ...COUNT }, { token_ids: [4096] }],
    ["more tokens than there may be", { ...COUNT }, { output_tokens_max: 1 }],
    ["no tokens at all", { ...COUNT }, { token_ids: [] }],
  ])("but one with %s is refused for good", async (_, change, other?: object) => {
    const continuation = continuationOf((await ask(engines[0], CHATS, COUNT)).slice(0, 3));
    const body = { ...STREAMED, ...change, [CONTINUATION_MEMBER]: { ...continuation, ...other } };
    expect((await readProblem(await engines[1].chat(body))).status).toBe(400);
  });

  test.each([
    ["several choices", CHATS, { ...COUNT, n: 2, max_tokens: 3 }, TELLING],
    ["several prompts", COMPLETIONS, { prompt: ["a", "b"], max_tokens: 3 }, TELLING],
    ["an echo", COMPLETIONS, { prompt: "a", echo: true, max_tokens: 3 }, TELLING],
    ["a stream that nobody asked it of", CHATS, { ...COUNT, max_tokens: 3 }, {}],
  ])("but of what none can go on with no tokens are told: %s", async (_, path, body, init) => {
    const response = await engines[0].post(path, { ...STREAMED, ...body }, init);
    expect(response.headers.has(ENGINE_HEADERS.tellTokens)).toBe(false);
    expect(await response.text()).not.toContain(PROGRESS_MEMBER);
  });
});

describe("with f32", () => {
  let engine: TestEngine;
  beforeAll(async () => {
    engine = await startEngine(["--precision", "f32"]);
  }, ENGINE_START_MS_MAX);
  afterAll(() => engine.stop());

  test.each([
    ["a drawn answer", { ...FOX, ...DRAWN, max_tokens: 30 }],
    ["log probabilities", { ...CHINESE, logprobs: true, top_logprobs: 2 }],
    ["a schema", { ...FOX, ...AS_JSON, max_tokens: 40 }],
  ])("%s goes on as well", { timeout: CUTS_MS_MAX }, async (_, body) => {
    expect(await continueEverywhere([engine, engine], CHATS, body)).toBeGreaterThan(3);
  });
});
