import { afterEach, expect, test } from "vitest";
import { KvNeighbours } from "../../../gpu-backend/kv-peers/kv-neighbours.ts";
import { PrefillAnswer } from "../../../src/protocol/prefill-answer.ts";
import { eventually } from "../../support/eventually.ts";
import {
  ENGINE_START_MS_MAX,
  readText,
  startEngine,
  type TestEngine,
} from "../../support/running-engine.ts";

const SECRET = "a-secret-of-replicas";
const PROMPT = "One day a bear named Ben went to the market with his friend Tom. ".repeat(40);
/** Nobody listens there, so that nothing can come from there over HTTP. */
const NOWHERE = "http://127.0.0.1:9";
const FROM_NOWHERE = { "x-gw-kv-peer": NOWHERE };
const HELD = { "x-gw-cache-salt": "salt", "x-gw-tenant": "tenant" };

const engines: TestEngine[] = [];
afterEach(async () => {
  await Promise.all(engines.splice(0).map((engine) => engine.stop()));
});

/** Two engines of one process, of which the second has KV of the first. */
async function twoEngines(flagsOfSecond: readonly string[] = []) {
  const neighbours = new KvNeighbours();
  const open = async (flags: readonly string[]): Promise<TestEngine> => {
    const engine = await startEngine(flags, SECRET, undefined, neighbours);
    engines.push(engine);
    return engine;
  };
  const first = await open(["--role", "prefill", "--advertise-url", NOWHERE]);
  const peers = ["--role", "decode", "--kv-host-mib", "64", "--kv-peers", NOWHERE];
  return { first, second: await open([...peers, ...flagsOfSecond]) };
}

async function post(engine: TestEngine, headers: Record<string, string>) {
  const body = { prompt: PROMPT, max_tokens: 12, temperature: 0.9, seed: 7 };
  return engine.post("/v1/completions", body, { headers: { ...HELD, ...headers } });
}

async function complete(engine: TestEngine, headers: Record<string, string> = {}) {
  const { choices, usage } = await readText(await post(engine, headers));
  const cachedTokens = usage?.prompt_tokens_details?.cached_tokens ?? 0;
  return { text: choices[0]?.text, cachedTokens };
}

async function prefill(engine: TestEngine, headers: Record<string, string> = {}): Promise<number> {
  const response = await post(engine, { ...headers, "x-gw-prefill-only": "1" });
  return PrefillAnswer.parse(await response.json()).held_tokens;
}

test(
  "what one has prefilled another decodes without HTTP, with the same tokens, and nothing is held behind it",
  async () => {
    const { first, second } = await twoEngines();
    const heldTokens = await prefill(first);
    expect(heldTokens).toBeGreaterThan(500);
    const { text, cachedTokens } = await complete(second, FROM_NOWHERE);
    expect(cachedTokens).toBe(heldTokens);
    expect(await second.metric("engine_peer_loaded_blocks_total")).toBe(heldTokens / 16);
    expect(await second.metric("engine_peer_failed_fetches_total")).toBe(0);
    // Its own now; and what the first one says who has computed it.
    expect(await complete(second)).toEqual({ text, cachedTokens });
    expect((await complete(first)).text).toBe(text);
    await eventually("hold and lease are given back", async () => {
      const [leases, usage] = await Promise.all([
        first.metric("engine_peer_leases"),
        first.metric("engine_kv_cache_usage_perc"),
      ]);
      return leases + usage === 0;
    });
  },
  2 * ENGINE_START_MS_MAX,
);

test(
  "another salt or tenant gets nothing of it",
  async () => {
    const { first, second } = await twoEngines();
    await prefill(first);
    for (const theft of [{ "x-gw-cache-salt": "guessed" }, { "x-gw-tenant": "thief" }]) {
      const stolen = await complete(second, { ...FROM_NOWHERE, ...theft });
      expect(stolen.cachedTokens).toBe(0);
    }
    expect(await second.metric("engine_peer_fetches_total")).toBe(2);
    expect(await second.metric("engine_peer_loaded_blocks_total")).toBe(0);
  },
  2 * ENGINE_START_MS_MAX,
);

test(
  "KV of another precision is computed instead",
  async () => {
    const { first, second } = await twoEngines(["--precision", "f32"]);
    await prefill(first);
    expect((await complete(second, FROM_NOWHERE)).cachedTokens).toBe(0);
    const notes = second.log.map(({ note }) => String(note));
    expect(notes.filter((note) => note.startsWith(`No KV from ${NOWHERE} for now: `))).toEqual([
      expect.stringContaining("model revision and precision"),
    ]);
  },
  2 * ENGINE_START_MS_MAX,
);

test(
  "an engine that has stopped is nobody's neighbour any more, and costs no answer",
  async () => {
    const { first, second } = await twoEngines();
    await prefill(first);
    const expected = (await complete(first)).text;
    await first.stop();
    const answer = await complete(second, FROM_NOWHERE);
    expect(answer).toEqual({ text: expected, cachedTokens: 0 });
    expect(await second.metric("engine_peer_failed_fetches_total")).toBe(1);
    expect(await second.idleKvUsage()).toBe(0);
  },
  2 * ENGINE_START_MS_MAX,
);
