import { afterAll, beforeAll, expect, test } from "vitest";
import { readText } from "../support/running-engine.ts";
import { CuttingProxy } from "../support/cutting-proxy.ts";
import { type EngineProgram, spawnEngine } from "../support/engine-program.ts";
import { eventually } from "../support/eventually.ts";

const SECRET = "a-secret-of-replicas";
const PROMPT = "One day a bear named Ben went to the market with his friend Tom. ".repeat(40);
const FLAGS = ["--port", "0", "--precision", "f32", "--runtime", "wasm", "--drain-ms", "0"];
/** Of an answer of several megabytes. */
const CUT_BYTES = 300_000;
const START_MS_MAX = 120_000;

let peer: EngineProgram;
let peerUrl = "";
let proxy: CuttingProxy;
let engine: EngineProgram;
let engineUrl = "";

beforeAll(async () => {
  peer = spawnEngine(FLAGS, SECRET);
  peerUrl = await peer.ready();
  proxy = await CuttingProxy.to(Number(new URL(peerUrl).port));
  engine = spawnEngine([...FLAGS, "--kv-host-mib", "64", "--kv-peers", proxy.url], SECRET);
  engineUrl = await engine.ready();
}, START_MS_MAX);

afterAll(async () => {
  for (const program of [peer, engine]) program?.child.kill("SIGKILL");
  await proxy?.close();
});

let salts = 0;
const AUTHORIZATION = { authorization: `Bearer ${SECRET}` };

async function complete(url: string, salt: string, headers: Record<string, string> = {}) {
  const response = await fetch(`${url}/v1/completions`, {
    method: "POST",
    headers: { ...AUTHORIZATION, "x-gw-cache-salt": salt, ...headers },
    body: JSON.stringify({
      model: "sluice-tiny",
      prompt: PROMPT,
      max_tokens: 24,
      temperature: 0.9,
      seed: 11,
    }),
  });
  const { choices, usage } = await readText(response);
  return { text: choices[0]?.text, cachedTokens: usage?.prompt_tokens_details?.cached_tokens };
}

async function metric(name: string, url = engineUrl): Promise<number> {
  const text = await (await fetch(`${url}/metrics`, { headers: AUTHORIZATION })).text();
  return Number(new RegExp(`^${name} (\\S+)$`, "m").exec(text)?.[1]);
}

/** Has the peer compute the prompt under a new salt, and then the engine, which may fetch it. */
async function ask() {
  salts += 1;
  const computed = await complete(peerUrl, `salt-${salts}`);
  return {
    computed,
    fetched: () => complete(engineUrl, `salt-${salts}`, { "x-gw-kv-peer": proxy.url }),
  };
}

/** Does something to the peer in the midst of a transfer. A peer that failed is left alone for a while before. */
async function inTheMidst(expected: string | undefined, act: () => void): Promise<void> {
  let cuts = 0;
  const texts = new Set<string | undefined>();
  proxy.bytesBeforeCut = CUT_BYTES;
  await eventually(
    "there was a transfer to interrupt",
    async () => {
      const { fetched } = await ask();
      proxy.onCut = () => {
        cuts += 1;
        act();
      };
      texts.add((await fetched()).text);
      return cuts === 1;
    },
    30_000,
  );
  expect([...texts]).toEqual([expected]);
}

test(
  "an answer is the same whether its KV came, or its peer was stopped or killed meanwhile",
  async () => {
    const { computed, fetched } = await ask();
    const { text, cachedTokens } = await fetched();
    expect(text).toBe(computed.text);
    // All of it, or on a busy machine what came in the time that computing takes.
    expect(cachedTokens).toBeGreaterThan(0);

    const failed = await metric("engine_peer_failed_fetches_total");
    await inTheMidst(text, () => peer.child.kill("SIGSTOP"));
    expect(await metric("engine_peer_failed_fetches_total")).toBeGreaterThan(failed);
    peer.child.kill("SIGCONT");
    await eventually(
      "the peer has ended the lease that nobody read",
      async () => (await metric("engine_peer_leases", peerUrl)) === 0,
      20_000,
    );
    expect(await metric("engine_kv_cache_usage_perc", peerUrl)).toBe(0);

    await inTheMidst(text, () => peer.child.kill("SIGKILL"));
    expect(await peer.ended).toBe("SIGKILL");
    expect(await metric("engine_kv_cache_usage_perc")).toBe(0);
  },
  START_MS_MAX,
);
