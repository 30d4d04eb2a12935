import { createServer, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, beforeEach, expect, onTestFinished, test } from "vitest";
import { KV_BLOCK_COUNT_HEADER, KV_BLOCKS_PATH } from "../../../src/protocol/kv-blocks.ts";
import { eventually } from "../../support/eventually.ts";
import {
  ENGINE_START_MS_MAX,
  readProblem,
  readText,
  startEngine,
  type TestEngine,
} from "../../support/running-engine.ts";

const SECRET = "a-secret-of-replicas";
const PROMPT = "One day a bear named Ben went to the market with his friend Tom. ".repeat(40);
const HEADERS = { "x-gw-cache-salt": "salt", "x-gw-tenant": "tenant" };
const HOST_MIB = ["--kv-host-mib", "64"];

let engines: TestEngine[] = [];
beforeEach(() => {
  engines = [];
});
afterEach(async () => {
  await Promise.all(engines.map((engine) => engine.stop()));
});

async function anEngine(flags: readonly string[] = []): Promise<TestEngine> {
  const engine = await startEngine(flags, SECRET);
  engines.push(engine);
  return engine;
}

async function complete(engine: TestEngine, headers: Record<string, string> = {}) {
  const body = { prompt: PROMPT, max_tokens: 12, temperature: 0.9, seed: 7 };
  const init = { headers: { ...HEADERS, ...headers } };
  const { choices, usage } = await readText(await engine.post("/v1/completions", body, init));
  const cachedTokens = usage?.prompt_tokens_details?.cached_tokens ?? 0;
  return { text: choices[0]?.text, cachedTokens, promptTokens: usage?.prompt_tokens ?? 0 };
}

/** A server that engines take for one of theirs. */
async function aServer(handler: Parameters<typeof createServer>[1]): Promise<string> {
  const server: Server = createServer({}, handler);
  await new Promise<void>((resolve) => {
    server.listen(0, "127.0.0.1", resolve);
  });
  onTestFinished(async () => {
    server.closeAllConnections();
    await new Promise<unknown>((resolve) => server.close(resolve));
  });
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- it listens on a port
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

test(
  "a prompt that another engine has computed comes from there, and the answer is the same",
  async () => {
    const first = await anEngine();
    const second = await anEngine([...HOST_MIB, "--kv-peers", `${first.url}/`]);
    const computed = await complete(first);
    expect(computed.cachedTokens).toBe(0);
    const fetched = await complete(second, { "x-gw-kv-peer": first.url });
    const blocks = Math.floor((computed.promptTokens - 1) / 16);
    expect(fetched).toEqual({ ...computed, cachedTokens: 16 * blocks });
    expect(await second.metric("engine_peer_loaded_blocks_total")).toBe(blocks);
    expect(await second.metric("engine_peer_failed_fetches_total")).toBe(0);
    expect(await second.metric("engine_external_prefix_cache_hits_total")).toBe(16 * blocks);
    // And is its own now.
    expect((await complete(second)).cachedTokens).toBe(16 * blocks);
    await eventually("the lease is given back", async () => {
      await complete(first);
      return (await first.metric("engine_peer_leases")) === 0;
    });
    expect(await first.metric("engine_kv_cache_usage_perc")).toBe(0);
  },
  2 * ENGINE_START_MS_MAX,
);

test(
  "another salt or tenant gets nothing of it",
  async () => {
    const first = await anEngine();
    const second = await anEngine([...HOST_MIB, "--kv-peers", first.url]);
    const { text } = await complete(first);
    for (const theft of [{ "x-gw-cache-salt": "guessed" }, { "x-gw-tenant": "thief" }]) {
      const stolen = await complete(second, { "x-gw-kv-peer": first.url, ...theft });
      expect(stolen).toMatchObject({ text, cachedTokens: 0 });
    }
    expect(await second.metric("engine_peer_fetches_total")).toBe(2);
    expect(await second.metric("engine_peer_loaded_blocks_total")).toBe(0);
  },
  2 * ENGINE_START_MS_MAX,
);

test(
  "nobody is asked who was not given at the start, and nonsense is refused",
  async () => {
    const asked: string[] = [];
    const url = await aServer(({ url: path = "" }, response) => {
      asked.push(path);
      response.end();
    });
    const engine = await anEngine([...HOST_MIB, "--kv-peers", "http://127.0.0.1:9"]);
    expect(await complete(engine, { "x-gw-kv-peer": url })).toMatchObject({ cachedTokens: 0 });
    expect(asked).toEqual([]);
    expect(await engine.metric("engine_peer_fetches_total")).toBe(0);
    const body = { prompt: "Hello", max_tokens: 1 };
    for (const nonsense of [
      "somewhere",
      "ftp://x",
      "file:///etc/passwd",
      `http://${"a".repeat(600)}`,
    ]) {
      const init = { headers: { "x-gw-kv-peer": nonsense } };
      const response = await engine.post("/v1/completions", body, init);
      expect(await readProblem(response)).toMatchObject({ status: 400, param: "x-gw-kv-peer" });
    }
  },
  ENGINE_START_MS_MAX,
);

test(
  "a peer that is away, silent, of another model or lying costs no answer, and is said once",
  async () => {
    const answers: ((response: ServerResponse) => void)[] = [
      (response) => response.destroy(),
      () => undefined,
      (response) => response.writeHead(412).end(JSON.stringify({ error: { code: "kv_mismatch" } })),
      (response) => response.end("x".repeat(60_000)),
      (response) => response.writeHead(302, { location: "http://127.0.0.1:9/" }).end(),
      (response) => response.writeHead(200, { "content-length": "60000" }).write("half"),
    ];
    const urls = await Promise.all(
      answers.map((answer) =>
        aServer((request, response) => {
          request.resume().once("end", () => answer(response));
        }),
      ),
    );
    const engine = await anEngine([...HOST_MIB, "--kv-peers", urls.join(",")]);
    let expected: string | undefined;
    for (const [index, url] of urls.entries()) {
      // oxlint-disable-next-line no-await-in-loop -- one after the other
      const answer = await complete(engine, {
        "x-gw-kv-peer": url,
        "x-gw-cache-salt": `salt-${index}`,
      });
      expected ??= answer.text;
      expect(answer).toMatchObject({ text: expected, cachedTokens: 0 });
    }
    expect(await engine.metric("engine_peer_fetches_total")).toBe(urls.length);
    expect(await engine.metric("engine_peer_failed_fetches_total")).toBe(urls.length);
    const notes = engine.log
      .filter(({ event }) => event === "note")
      .map(({ note }) => String(note));
    for (const url of urls) {
      expect(notes.filter((note) => note.startsWith(`No KV from ${url} for now: `))).toHaveLength(
        1,
      );
    }
    expect(notes.join("\n")).not.toContain(SECRET);
    expect(await engine.idleKvUsage()).toBe(0);
  },
  ENGINE_START_MS_MAX,
);

test(
  "KV is given to who has the secret, of this very model, and as far as it is there",
  async () => {
    const engine = await anEngine();
    const version = { layout: "tiles-1", model_revision: "x", block_tokens: 16, block_bytes: 64 };
    const ask = (body: object, init?: RequestInit) => engine.post(KV_BLOCKS_PATH, body, init);
    const hashes = ["a".repeat(43)];
    const wrong = await readProblem(await ask({ version, hashes }));
    expect(wrong).toMatchObject({ status: 412, code: "kv_mismatch" });
    expect(wrong.message).toMatch(/model revision and precision \S+, not x, and bytes of a block/);
    const [, revision = ""] = /precision (\S+), not/.exec(wrong.message) ?? [];
    const [, bytes = ""] = /bytes of a block (\d+), not/.exec(wrong.message) ?? [];
    const own = { ...version, model_revision: revision, block_bytes: Number(bytes) };
    const other = await readProblem(await ask({ version: { ...own, layout: "rows" }, hashes }));
    expect(other).toMatchObject({ status: 412, code: "kv_mismatch" });
    const none = await ask({ version: own, hashes });
    expect(none.status).toBe(200);
    expect(none.headers.get(KV_BLOCK_COUNT_HEADER)).toBe("0");
    expect((await none.arrayBuffer()).byteLength).toBe(0);
    const bad = { version: own, hashes: ["../../etc/passwd"] };
    expect(await readProblem(await ask(bad))).toMatchObject({ status: 400 });
    expect(await readProblem(await ask({ version: own, hashes: [] }))).toMatchObject({
      status: 400,
    });
    const init = { headers: { authorization: "Bearer somebody-elses-secret" } };
    expect((await ask({ version: own, hashes }, init)).status).toBe(401);
  },
  ENGINE_START_MS_MAX,
);

test(
  "an engine without a secret gives nobody KV",
  async () => {
    const engine = await startEngine();
    engines.push(engine);
    expect((await engine.post(KV_BLOCKS_PATH, {})).status).toBe(404);
  },
  ENGINE_START_MS_MAX,
);
