import { afterEach, beforeEach, expect, test } from "vitest";
import { PrefillAnswer } from "../../../src/protocol/prefill-answer.ts";
import { EngineHold } from "../../support/engine-hold.mjs";
import { eventually } from "../../support/eventually.ts";
import {
  ENGINE_START_MS_MAX,
  question,
  readCompletion,
  readProblem,
  readText,
  startEngine,
  type TestEngine,
} from "../../support/running-engine.ts";

const SECRET = "a-secret-of-replicas";
const PROMPT = "One day a bear named Ben went to the market with his friend Tom. ".repeat(40);
const HEADERS = { "x-gw-cache-salt": "salt", "x-gw-tenant": "tenant" };
const PREFILL_ONLY = { "x-gw-prefill-only": "1" };
const TASK = { prompt: PROMPT, max_tokens: 12, temperature: 0.9, seed: 7 };

let engines: TestEngine[] = [];
beforeEach(() => {
  engines = [];
});
afterEach(async () => {
  await Promise.all(engines.map((engine) => engine.stop()));
});

async function anEngine(flags: readonly string[], hold?: EngineHold): Promise<TestEngine> {
  const engine = await startEngine(flags, SECRET, hold);
  engines.push(engine);
  return engine;
}

async function prefill(engine: TestEngine, body: object = TASK, headers: object = {}) {
  const init = { headers: { ...HEADERS, ...PREFILL_ONLY, ...headers } };
  const response = await engine.post("/v1/completions", body, init);
  const timing = response.headers.get("server-timing");
  return { ...PrefillAnswer.parse(await response.json()), timing };
}

async function complete(engine: TestEngine, headers: object = {}) {
  const init = { headers: { ...HEADERS, ...headers } };
  const { choices, usage } = await readText(await engine.post("/v1/completions", TASK, init));
  const cachedTokens = usage?.prompt_tokens_details?.cached_tokens ?? 0;
  return { text: choices[0]?.text, cachedTokens, promptTokens: usage?.prompt_tokens ?? 0 };
}

test(
  "a prompt is computed by one engine and decoded by another, as one alone would have",
  async () => {
    const prefiller = await anEngine(["--role", "prefill"]);
    const peers = ["--kv-host-mib", "64", "--kv-peers", prefiller.url];
    const decoder = await anEngine(["--role", "decode", ...peers]);
    const answer = await prefill(prefiller);
    const heldTokens = answer.prompt_tokens - 1 - ((answer.prompt_tokens - 1) % 16);
    expect(answer).toMatchObject({ object: "prefill", cached_tokens: 0, held_tokens: heldTokens });
    expect(answer.timing).toMatch(/^queue;dur=[\d.]+, prefill;dur=[\d.]+$/);
    expect(await prefiller.metric("engine_prefill_holds")).toBe(1);
    expect(await prefiller.metric("engine_kv_cache_usage_perc")).toBe(heldTokens / 16 / 256);
    expect(await prefiller.metric("engine_generation_tokens_total")).toBe(0);
    expect(await prefiller.metric("engine_prompt_tokens_total")).toBe(0);
    expect(await prefiller.metric("engine_prefill_tokens_total")).toBe(answer.prompt_tokens);

    const split = await complete(decoder, { "x-gw-kv-peer": prefiller.url });
    expect(split).toMatchObject({ cachedTokens: heldTokens, promptTokens: answer.prompt_tokens });
    expect(await decoder.metric("engine_peer_failed_fetches_total")).toBe(0);
    // Read to its end, it is not held any more, and the engine says so though nothing runs there.
    await eventually("what was held is given back", async () => {
      return (await prefiller.metric("engine_prefill_holds")) === 0;
    });
    expect(await prefiller.metric("engine_kv_cache_usage_perc")).toBe(0);
    expect(await prefiller.metric("engine_prefill_holds_ended_early_total")).toBe(0);
    // A role is a hint: the one who prefills answers as well.
    expect((await complete(prefiller, { "x-gw-cache-salt": "other" })).text).toBe(split.text);
    const again = await prefill(prefiller);
    expect(again).toMatchObject({ cached_tokens: heldTokens, held_tokens: heldTokens });
    expect(again.timing).toContain('cache;desc="hit"');
  },
  2 * ENGINE_START_MS_MAX,
);

test(
  "a prefill is refused as an answer would be, and computes nothing that nobody could use",
  async () => {
    const engine = await anEngine(["--role", "prefill", "--require-salt"]);
    const post = (body: object, headers: Record<string, string> = PREFILL_ONLY) =>
      engine.post("/v1/completions", body, { headers: { ...HEADERS, ...headers } });
    expect(await readProblem(await post(TASK, { "x-gw-prefill-only": "yes" }))).toMatchObject({
      status: 400,
      param: "x-gw-prefill-only",
    });
    const long = { prompt: PROMPT.repeat(40) };
    expect(await readProblem(await post(long))).toMatchObject({ code: "context_length_exceeded" });
    const late = { ...PREFILL_ONLY, "x-gw-deadline-ms": "0" };
    expect((await readProblem(await post(TASK, late))).status).toBe(503);
    const unsalted = await engine.post("/v1/completions", TASK, { headers: PREFILL_ONLY });
    expect(await readProblem(unsalted)).toMatchObject({ code: "missing_cache_salt" });
    const useless = [
      { prompt: [PROMPT, "Once"], max_tokens: 1 },
      { prompt: PROMPT, echo: true, logprobs: 1, max_tokens: 1 },
      { prompt: "Once", max_tokens: 1 },
    ];
    for (const body of useless) {
      // oxlint-disable-next-line no-await-in-loop -- one after the other
      const answer = await prefill(engine, body);
      expect(answer).toMatchObject({ cached_tokens: 0, held_tokens: 0 });
      expect(answer.prompt_tokens).toBeGreaterThan(0);
    }
    // Several choices have one prompt in common, and a grammar is of no matter to it.
    const chat = {
      messages: [question(PROMPT)],
      n: 3,
      stream: true,
      response_format: { type: "json_object" },
    };
    const response = await engine.chat(chat, { headers: { ...HEADERS, ...PREFILL_ONLY } });
    expect(PrefillAnswer.parse(await response.json()).held_tokens).toBeGreaterThan(0);
    expect(await engine.metric("engine_generation_tokens_total")).toBe(0);
    const unasked = await startEngine();
    engines.push(unasked);
    expect(await prefill(unasked)).toMatchObject({ held_tokens: 0 });
    expect(await unasked.metric("engine_prefill_requests_total")).toBe(0);
  },
  2 * ENGINE_START_MS_MAX,
);

test(
  "a gateway that leaves in the midst of a prefill leaves nothing behind",
  async () => {
    const hold = new EngineHold();
    const engine = await anEngine(["--role", "prefill", "--max-batch-tokens", "64"], hold);
    hold.hold();
    const abort = new AbortController();
    const init = { headers: { ...HEADERS, ...PREFILL_ONLY }, signal: abort.signal };
    const gone = engine.post("/v1/completions", TASK, init).catch((error: unknown) => error);
    await eventually("it runs", async () => {
      return (await engine.metric("engine_num_requests_running")) === 1;
    });
    abort.abort();
    expect(await gone).toBeInstanceOf(DOMException);
    expect(await engine.idleKvUsage()).toBe(0);
    expect(await engine.metric("engine_prefill_holds")).toBe(0);
    const ending = engine.log.findLast(({ event }) => event === "request-ended");
    expect(ending).toMatchObject({ operation: "prefill", outcome: "cancelled" });
    hold.letGo();
    expect(
      (await readCompletion(await engine.chat({ max_tokens: 1 }, { headers: HEADERS }))).object,
    ).toBe("chat.completion");
  },
  ENGINE_START_MS_MAX,
);
