import { createHmac } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import type OpenAI from "openai";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import * as z from "zod";
import { deriveCacheSalt, deriveNamespace } from "../../src/prompt-cache/cache-salt.ts";
import { deriveChainRoot, derivePromptKeys } from "../../src/prompt-cache/prompt-keys.ts";
import { ChatRequestShape } from "../../src/protocol/chat.ts";
import { CLIENT_HEADERS, ENGINE_HEADERS } from "../../src/protocol/headers.ts";
import { TenantId } from "../../src/protocol/ids.ts";
import { CHAIN_KEY_LENGTH } from "../../src/protocol/prompt-chain.ts";
import { chatParts } from "../../src/protocol/prompt-parts.ts";
import { takeFreePorts } from "../support/free-ports.ts";
import { KEY_PRIMITIVES } from "../support/key-primitives.ts";
import { RunningStack } from "./support/running-stack.ts";

const MODEL = "sluice-tiny";
/** About nine hundred tokens: what both tenants have in common, as far as anybody may know. */
const SHARED = "The lamp stood by the window, and the fox looked at it for a long time. ".repeat(
  45,
);
const CACHE_KEY = "conversation-of-nobody-else";
/** Tokens of prompts that engines looked for in their caches. */
const QUERIES = "engine_prefix_cache_queries_total";

const EngineAnswer = z.object({
  usage: z.object({ prompt_tokens_details: z.object({ cached_tokens: z.int() }) }),
});

const promptOf = (question: string) => [
  { role: "system" as const, content: SHARED },
  { role: "user" as const, content: question },
];

/** Two tenants more, who want their answers given again. */
const KEEPERS = ["keeper", "neighbour"].map(
  (name) => `
  ${name}:
    keys: [{ name: demo, key: sk-sluice-demo-${name} }]
    models: [sluice-tiny]
    class: bulk
    cache: { answers: true }
`,
);

/** `sluice.local.yaml` with those two; its tenants come last. */
function writeOriginal(folder: string): URL {
  const local = readFileSync(new URL("../../sluice.local.yaml", import.meta.url), "utf8");
  const path = join(folder, "with-keepers.yaml");
  writeFileSync(path, local.trimEnd() + KEEPERS.join(""));
  return pathToFileURL(path);
}

describe("what two tenants have cached at the same two engines", () => {
  const folder = mkdtempSync(join(tmpdir(), "isolation-"));
  let stack: RunningStack;
  beforeAll(async () => {
    stack = await RunningStack.readyWith(writeOriginal(folder), await takeFreePorts(2));
  });
  afterAll(async () => {
    await stack?.dispose();
    rmSync(folder, { recursive: true });
  });

  /** What the gateway derives for a tenant's question, and tells nobody but an engine. */
  function keysOf(tenant: string, question: string) {
    const master = Buffer.from(stack.secrets.SLUICE_CACHE_MASTER, "base64url");
    const owner = { tenantId: TenantId.parse(tenant), generation: 0 };
    const namespace = deriveNamespace(owner, master, KEY_PRIMITIVES);
    const request = ChatRequestShape.parse({ model: MODEL, messages: promptOf(question) });
    const prompt = {
      parts: chatParts(request),
      modelRevision: MODEL,
      cacheKey: CACHE_KEY,
    };
    const model = { modelRevision: MODEL, templateRevision: "1" };
    const chainRoot = deriveChainRoot(namespace, model, KEY_PRIMITIVES);
    const cacheSalt = deriveCacheSalt(namespace, MODEL, KEY_PRIMITIVES);
    const opaqueTenant = createHmac("sha256", master).update(`gw/tenant/v1\n${tenant}`);
    return {
      cacheSalt,
      opaqueTenant: opaqueTenant.digest("base64url").slice(0, 22),
      ...derivePromptKeys({ namespace, chainRoot }, prompt, KEY_PRIMITIVES),
    };
  }

  /** Asks each engine itself, as only the gateway may, and returns what was found cached there. */
  async function cachedAtEngines(headers: Readonly<Record<string, string>>, question: string) {
    const body = { model: MODEL, messages: promptOf(question), temperature: 0, max_tokens: 1 };
    const answers = await Promise.all(
      stack.engines.map((engine) => engine.complete(body, headers)),
    );
    return answers.map(
      (answer) => EngineAnswer.parse(answer).usage.prompt_tokens_details.cached_tokens,
    );
  }

  /** Asks as a tenant, and returns the greedy answer and what was found cached for it. */
  async function ask(
    tenant: string,
    question: string,
    change: object = {},
    headers: Record<string, string> = {},
  ) {
    const { data: answer, response } = await stack
      .clientOf(tenant)
      .chat.completions.create(
        {
          model: MODEL,
          messages: promptOf(question),
          temperature: 0,
          max_completion_tokens: 16,
          ...change,
        } satisfies OpenAI.ChatCompletionCreateParamsNonStreaming,
        { headers },
      )
      .withResponse();
    const { usage, choices } = answer;
    return {
      text: choices[0]?.message.content,
      promptTokens: usage?.prompt_tokens ?? 0,
      cachedTokens: usage?.prompt_tokens_details?.cached_tokens ?? -1,
      timing: response.headers.get("server-timing") ?? "",
      kept: response.headers.get(CLIENT_HEADERS.cache),
    };
  }

  async function sumOf(name: string): Promise<number> {
    await stack.whenIdle();
    return (await stack.metricOfEach(name)).reduce((sum, value) => sum + value, 0);
  }

  test("is found by the tenant itself, wherever its next request goes first", async () => {
    const cold = await ask("interactive", "What did it see?", { prompt_cache_key: CACHE_KEY });
    expect(cold.cachedTokens).toBe(0);
    expect(cold.timing).not.toContain("cache");
    const warm = [];
    for (let turn = 0; turn < 4; turn += 1) {
      // oxlint-disable-next-line no-await-in-loop -- one after the other
      warm.push(await ask("interactive", `What did it see then, ${turn}?`));
    }
    for (const { cachedTokens, promptTokens, timing } of warm) {
      expect(cachedTokens).toBeGreaterThan(0.9 * promptTokens - 64);
      expect(timing).toContain('cache;desc="hit"');
    }
  });

  test("is nothing to another tenant: it computes each token of the same prompt", async () => {
    await ask("interactive", "Where is the lamp?");
    const [hitsBefore, queriesBefore] = [
      await sumOf("engine_prefix_cache_hits_total"),
      await sumOf(QUERIES),
    ];
    const other = await ask("chat", "Where is the lamp?", { prompt_cache_key: CACHE_KEY });
    expect(other.cachedTokens).toBe(0);
    expect((await sumOf("engine_prefix_cache_hits_total")) - hitsBefore).toBe(0);
    const queried = (await sumOf(QUERIES)) - queriesBefore;
    expect(queried).toBe(other.promptTokens);
  });

  test("is not reached by a salt that a client makes up, or by headers of ours", async () => {
    const question = "Who lit the lamp?";
    await ask("interactive", question);
    expect((await ask("interactive", question)).cachedTokens).toBeGreaterThan(0);
    const narrowed = await ask("interactive", question, { cache_salt: "another" });
    expect(narrowed.cachedTokens).toBe(0);
    const off = { prompt_cache_options: { mode: "explicit" } };
    expect((await ask("interactive", question, off)).cachedTokens).toBe(0);
    expect((await ask("interactive", question, off)).cachedTokens).toBe(0);
    const { cacheSalt, opaqueTenant, hashes, promptBytes } = keysOf("interactive", question);
    const forged = {
      [ENGINE_HEADERS.tenant]: opaqueTenant,
      [ENGINE_HEADERS.cacheSalt]: cacheSalt,
      [ENGINE_HEADERS.chain]: `${promptBytes}:${hashes.join("")}`,
    };
    // These are the right ones: with them it is found, and after this at either engine.
    expect(Math.max(...(await cachedAtEngines(forged, question)))).toBeGreaterThan(0);
    expect(Math.min(...(await cachedAtEngines(forged, question)))).toBeGreaterThan(0);
    const thief = await ask("bulk", question, { cache_salt: cacheSalt }, forged);
    expect(thief.cachedTokens).toBe(0);
  });

  test("changes no token of an answer", async () => {
    const question = "Why did the fox wait?";
    const off = { prompt_cache_options: { mode: "explicit" } };
    const texts = [
      await ask("interactive", question, off),
      await ask("interactive", question),
      await ask("interactive", question),
      await ask("bulk", question),
    ];
    expect(texts[2]?.cachedTokens).toBeGreaterThan(0);
    expect(new Set(texts.map(({ text }) => text)).size).toBe(1);
  });

  test("is gone for the tenant once it is purged", async () => {
    const question = "When did the lamp go out?";
    await ask("bulk", question);
    expect((await ask("bulk", question)).cachedTokens).toBeGreaterThan(0);
    const purged = await fetch(`${stack.gatewayUrl}/admin/v1/tenants/bulk/cache/purge`, {
      method: "POST",
      headers: { authorization: `Bearer ${stack.secrets.SLUICE_ADMIN_KEY}` },
    });
    expect(await purged.json()).toEqual({ generation: 1 });
    await expect
      .poll(async () => (await ask("bulk", question)).cachedTokens, { timeout: 20_000 })
      .toBe(0);
  });

  test("as an answer is given again to the tenant that wants that, and to no other", async () => {
    const question = "What does the fox want?";
    const first = await ask("keeper", question);
    const computedOnce = await sumOf(QUERIES);
    const again = await ask("keeper", question);
    expect([first.kept, again.kept]).toEqual(["miss", "hit"]);
    expect(again).toEqual({ ...first, kept: "hit", timing: again.timing });
    expect(await sumOf(QUERIES)).toBe(computedOnce);
    const others = [await ask("neighbour", question), await ask("interactive", question)];
    expect(others.map(({ kept }) => kept)).toEqual(["miss", null]);
    expect((await sumOf(QUERIES)) - computedOnce).toBe(2 * first.promptTokens);
    expect(new Set([first, ...others].map(({ text }) => text)).size).toBe(1);
    const chance = { temperature: 0.5 };
    expect((await ask("keeper", question, chance)).kept).toBeNull();
    expect((await ask("keeper", question, chance)).kept).toBeNull();
  });

  test("is told to nobody: no prompt, key or hash is logged, or explained", async () => {
    const question = "Whose lamp is it?";
    await ask("interactive", question, { prompt_cache_key: CACHE_KEY });
    const headers = { authorization: `Bearer ${stack.secrets.SLUICE_ADMIN_KEY}` };
    const decisions = await fetch(`${stack.gatewayUrl}/admin/v1/pools/local/decisions`, {
      headers,
    });
    const told = [await decisions.text(), stack.said, await stack.metrics()];
    expect(told[0]).toContain('"chain"');
    const { cacheSalt, hashes } = keysOf("interactive", question);
    // The operator's log has names that are cut from the hashes; nobody else has even those.
    const names = hashes.map((hash) => hash.slice(0, CHAIN_KEY_LENGTH));
    expect(names.length).toBeGreaterThan(5);
    expect(told[0]).toContain(names.join(""));
    for (const text of told.slice(1)) expect(text).not.toContain(names[0]);
    const { SLUICE_CACHE_MASTER: master } = stack.secrets;
    for (const text of told) {
      expect(text.length).toBeGreaterThan(0);
      for (const secret of [
        CACHE_KEY,
        "Whose lamp",
        "The lamp stood",
        master,
        cacheSalt,
        ...hashes,
      ]) {
        expect(text).not.toContain(secret);
      }
    }
  });
});
