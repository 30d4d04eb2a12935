import { afterAll, beforeAll, expect, test } from "vitest";
import { PrefillAnswer } from "../../src/protocol/prefill-answer.ts";
import { CuttingProxy } from "../support/cutting-proxy.ts";
import { type EngineProgram, spawnEngine } from "../support/engine-program.ts";
import { eventually } from "../support/eventually.ts";
import { readText } from "../support/running-engine.ts";

const SECRET = "a-secret-of-replicas";
const PROMPT = "One day a bear named Ben went to the market with his friend Tom. ".repeat(40);
const FLAGS = ["--port", "0", "--precision", "f32", "--runtime", "wasm", "--drain-ms", "0"];
const TASK = { model: "sluice-tiny", prompt: PROMPT, max_tokens: 24, temperature: 0.9, seed: 11 };
/** Of an answer of several megabytes. */
const CUT_BYTES = 300_000;
const START_MS_MAX = 120_000;
/** A peer that failed is left alone for a while. */
const REST_MS_MAX = 30_000;

let prefiller: EngineProgram;
let prefillerUrl = "";
let proxy: CuttingProxy;
let decoder: EngineProgram;
let decoderUrl = "";
/** What an engine says that does both. */
let expected: string | undefined;
const programs: EngineProgram[] = [];

function start(...flags: readonly string[]): EngineProgram {
  const program = spawnEngine([...FLAGS, ...flags], SECRET);
  programs.push(program);
  return program;
}

async function startDecoder(): Promise<void> {
  const peers = ["--kv-host-mib", "64", "--kv-peers", proxy.url];
  decoder = start("--role", "decode", ...peers);
  decoderUrl = await decoder.ready();
}

beforeAll(async () => {
  const mixed = start();
  prefiller = start("--role", "prefill");
  [prefillerUrl] = await Promise.all([prefiller.ready(), mixed.ready()]);
  expected = (await complete(await mixed.ready(), "salt")).text;
  mixed.child.kill("SIGKILL");
  proxy = await CuttingProxy.to(Number(new URL(prefillerUrl).port));
  await startDecoder();
}, START_MS_MAX);

afterAll(async () => {
  for (const { child } of programs) child.kill("SIGKILL");
  await proxy?.close();
});

const AUTHORIZATION = { authorization: `Bearer ${SECRET}` };
let salts = 0;

async function post(url: string, salt: string, headers: Record<string, string>) {
  return fetch(`${url}/v1/completions`, {
    method: "POST",
    headers: { ...AUTHORIZATION, "x-gw-cache-salt": salt, ...headers },
    body: JSON.stringify(TASK),
  });
}

async function complete(url: string, salt: string, headers: Record<string, string> = {}) {
  const { choices, usage } = await readText(await post(url, salt, headers));
  return { text: choices[0]?.text, cachedTokens: usage?.prompt_tokens_details?.cached_tokens };
}

/** Has the prompt computed under a new salt by the one engine, to be decoded by the other. */
async function prefill() {
  salts += 1;
  const salt = `salt-${salts}`;
  const response = await post(prefillerUrl, salt, { "x-gw-prefill-only": "1" });
  const { held_tokens: heldTokens } = PrefillAnswer.parse(await response.json());
  expect(heldTokens).toBeGreaterThan(500);
  return { heldTokens, decode: () => complete(decoderUrl, salt, { "x-gw-kv-peer": proxy.url }) };
}

async function metric(name: string, url: string): Promise<number> {
  const text = await (await fetch(`${url}/metrics`, { headers: AUTHORIZATION })).text();
  return Number(new RegExp(`^${name} (\\S+)$`, "m").exec(text)?.[1]);
}

async function nothingIsHeld(url: string): Promise<void> {
  await eventually(
    "what was held or lent has ended by itself",
    async () => {
      const held = await metric("engine_prefill_holds", url);
      return held + (await metric("engine_peer_leases", url)) === 0;
    },
    REST_MS_MAX,
  );
  expect(await metric("engine_kv_cache_usage_perc", url)).toBe(0);
}

/** Acts in the midst of a transfer, and returns what came of those that were not answered otherwise. */
async function inTheMidst(act: () => void): Promise<readonly unknown[]> {
  let cuts = 0;
  const ends: unknown[] = [];
  proxy.bytesBeforeCut = CUT_BYTES;
  await eventually(
    "there was a transfer to interrupt",
    async () => {
      const { decode } = await prefill();
      proxy.onCut = () => {
        cuts += 1;
        act();
      };
      ends.push(
        await decode().then(
          ({ text }) => text,
          (error: unknown) => error,
        ),
      );
      return cuts === 1;
    },
    REST_MS_MAX,
  );
  return ends;
}

test(
  "a prompt computed here and decoded there is answered as by one engine, and only its rest is computed",
  async () => {
    const { heldTokens, decode } = await prefill();
    const { text, cachedTokens } = await decode();
    expect(text).toBe(expected);
    expect(cachedTokens).toBe(heldTokens);
    await nothingIsHeld(prefillerUrl);
    expect(await metric("engine_prefill_holds_ended_early_total", prefillerUrl)).toBe(0);
  },
  START_MS_MAX,
);

test(
  "and so it is if the one who prefills is stopped before the transfer, or in the midst of it",
  async () => {
    const { decode } = await prefill();
    prefiller.child.kill("SIGSTOP");
    expect((await decode()).text).toBe(expected);
    prefiller.child.kill("SIGCONT");
    // The hold that nobody fetched ends by itself.
    await nothingIsHeld(prefillerUrl);
    const stopped = await inTheMidst(() => prefiller.child.kill("SIGSTOP"));
    expect(new Set(stopped)).toEqual(new Set([expected]));
    prefiller.child.kill("SIGCONT");
    await nothingIsHeld(prefillerUrl);
    expect(await metric("engine_kv_cache_usage_perc", decoderUrl)).toBe(0);
  },
  START_MS_MAX,
);

test(
  "who prefilled for one that was stopped or killed in the midst of a transfer holds nothing for it",
  async () => {
    // Its transfer stands still for as long as it does, which is longer than its lease.
    const stopped = inTheMidst(() => {
      decoder.child.kill("SIGSTOP");
      setTimeout(() => decoder.child.kill("SIGCONT"), 7_000);
    });
    expect(new Set(await stopped)).toEqual(new Set([expected]));
    const killed = await inTheMidst(() => decoder.child.kill("SIGKILL"));
    expect(killed.at(-1)).toBeInstanceOf(Error);
    await nothingIsHeld(prefillerUrl);
    // Whoever asks another one gets what it would have.
    await startDecoder();
    const { decode } = await prefill();
    expect((await decode()).text).toBe(expected);
  },
  START_MS_MAX,
);

test(
  "one that decodes goes on alone when the one who prefills is killed, and behind that",
  async () => {
    const killed = await inTheMidst(() => prefiller.child.kill("SIGKILL"));
    expect(new Set(killed)).toEqual(new Set([expected]));
    expect(await prefiller.ended).toBe("SIGKILL");
    const headers = { "x-gw-kv-peer": proxy.url };
    expect((await complete(decoderUrl, "another-salt", headers)).text).toBe(expected);
    expect(await metric("engine_kv_cache_usage_perc", decoderUrl)).toBe(0);
  },
  START_MS_MAX,
);
