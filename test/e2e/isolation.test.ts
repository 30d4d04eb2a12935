import type OpenAI from "openai";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { RunningStack } from "./support/running-stack.ts";

const MODEL = "sluice-tiny";
/** About nine hundred tokens: what both tenants have in common, as far as anybody may know. */
const SHARED = "The lamp stood by the window, and the fox looked at it for a long time. ".repeat(
  45,
);
const CACHE_KEY = "conversation-of-nobody-else";

const promptOf = (question: string) => [
  { role: "system" as const, content: SHARED },
  { role: "user" as const, content: question },
];

describe("what two tenants have cached at the same two engines", () => {
  let stack: RunningStack;
  beforeAll(async () => {
    stack = await RunningStack.ready();
  });
  afterAll(() => stack?.dispose());

  /** Asks as a tenant, and returns the greedy answer and what was found cached for it. */
  async function ask(tenant: string, question: string, change: object = {}) {
    const { data: answer, response } = await stack
      .clientOf(tenant)
      .chat.completions.create({
        model: MODEL,
        messages: promptOf(question),
        temperature: 0,
        max_completion_tokens: 16,
        ...change,
      } satisfies OpenAI.ChatCompletionCreateParamsNonStreaming)
      .withResponse();
    const { usage, choices } = answer;
    return {
      text: choices[0]?.message.content,
      promptTokens: usage?.prompt_tokens ?? 0,
      cachedTokens: usage?.prompt_tokens_details?.cached_tokens ?? -1,
      timing: response.headers.get("server-timing") ?? "",
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
      await sumOf("engine_prefix_cache_queries_total"),
    ];
    const other = await ask("chat", "Where is the lamp?", { prompt_cache_key: CACHE_KEY });
    expect(other.cachedTokens).toBe(0);
    expect((await sumOf("engine_prefix_cache_hits_total")) - hitsBefore).toBe(0);
    const queried = (await sumOf("engine_prefix_cache_queries_total")) - queriesBefore;
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

  test("is told to nobody: no prompt, key or hash is logged, or explained", async () => {
    await ask("interactive", "Whose lamp is it?", { prompt_cache_key: CACHE_KEY });
    const headers = { authorization: `Bearer ${stack.secrets.SLUICE_ADMIN_KEY}` };
    const decisions = await fetch(`${stack.gatewayUrl}/admin/v1/pools/local/decisions`, {
      headers,
    });
    const told = [await decisions.text(), stack.said, await stack.metrics()];
    expect(told[0]).toContain('"chain"');
    for (const text of told) {
      expect(text.length).toBeGreaterThan(0);
      for (const secret of [CACHE_KEY, "Whose lamp", "The lamp stood"]) {
        expect(text).not.toContain(secret);
      }
    }
  });
});
