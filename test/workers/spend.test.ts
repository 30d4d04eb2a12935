import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, test, vi } from "vitest";
import { streamThatGoesOn } from "./support/answers.ts";
import type { TestGateway } from "./support/gateway.ts";
import { aGateway, fetchGateway, WAIT } from "./support/gateway.ts";
import { aRow, skipTime } from "./support/limits.ts";
import { wholeAnswer } from "./support/upstream.ts";

/** 1 for a million tokens of the prompt, half of that where cached, 4 for a million of the output. */
const PRICE = {
  inputPicosPerToken: 1_000_000,
  cachedInputPicosPerToken: 500_000,
  outputPicosPerToken: 4_000_000,
};
/** What the gateway takes the prompt of `ask` for; its replicas count 12, and 3 of the answer. */
const PROMPT_TOKENS = 21;
/** In millionths: the bound of a request with at most 50 tokens, and what one costs that was answered. */
const BOUND = PROMPT_TOKENS + 4 * 50;
const COST = 12 + 4 * 3;
const WHOLE = { body: { max_tokens: 50 } };

async function usageOf({ key }: TestGateway) {
  const headers = { authorization: `Bearer ${key}` };
  const usage: { spend: string; tenant: object } = await (
    await fetchGateway("/v1/usage", { headers })
  ).json();
  return usage;
}

async function restart(tenantId: string): Promise<void> {
  const ended = runInDurableObject(env.TENANTS.getByName(tenantId), (_object, state) => {
    state.abort("the object ends");
  });
  await expect(ended).rejects.toThrow(/ends/);
}

describe("a tenant's spend of a month", () => {
  test("that leaves no room refuses for good, before any pool is asked, and is told to the fraction", async () => {
    const gateway = await aGateway({
      price: PRICE,
      tenant: { spendPerMonthMaxMicros: BOUND + COST - 1 },
    });
    await gateway.upstream.answerWith(wholeAnswer("a"));
    expect((await gateway.ask(WHOLE)).status).toBe(200);
    const log = vi.spyOn(console, "log").mockImplementation(() => {});
    const response = await gateway.ask(WHOLE);
    expect(response.status).toBe(429);
    expect(response.headers.get("x-should-retry")).toBe("false");
    expect(response.headers.get("retry-after")).toBeNull();
    expect(await response.json()).toEqual({
      error: {
        message:
          "The tenant's limit of a spend of 0.000244 per month leaves no room for a request that " +
          "may cost 0.000221: GET /v1/usage tells what is used",
        type: "insufficient_quota",
        param: null,
        code: "insufficient_quota",
      },
    });
    await vi.waitFor(() => expect(log).toHaveBeenCalled(), WAIT);
    expect(JSON.parse(String(log.mock.calls[0]?.[0]))).toMatchObject({ limitedBy: "spend" });
    expect(await gateway.poolStatus()).toMatchObject({ offered: 1 });
    expect(await usageOf(gateway)).toMatchObject({
      spend: "0.000024",
      tenant: {
        month_spend: "0.000024",
        month_spend_reserved: "0",
        month_spend_limit: "0.000244",
      },
    });
    // A smaller maximum still fits, and is what the message leads to.
    expect((await gateway.ask({ body: { max_tokens: 49 } })).status).toBe(200);
  });

  test("is reserved by the most that a request can cost, which an answer gives back", async () => {
    const gateway = await aGateway({ price: PRICE, contextTokens: 500 });
    await gateway.upstream.answerWith(
      streamThatGoesOn(["a", "b"], { kind: "gate", name: "end" }, { kind: "end" }),
    );
    const response = await gateway.ask({ body: { stream: true } });
    // Without a maximum of output all that the context can leave, were the prompt as short as can be.
    const bound = PROMPT_TOKENS + 4 * 500;
    expect(await usageOf(gateway)).toMatchObject({
      tenant: { month_spend: "0", month_spend_reserved: `0.00${bound}` },
    });
    await gateway.upstream.openGate("end");
    await response.text();
    expect(await usageOf(gateway)).toMatchObject({
      spend: "0.000029",
      tenant: { month_spend: "0.000029", month_spend_reserved: "0" },
    });
    const page = await fetchGateway(`/admin/v1/tenants/${gateway.tenantId}/usage`, {
      headers: { authorization: `Bearer ${env.SLUICE_ADMIN_KEY}` },
    });
    expect(JSON.parse(await page.text())).toMatchObject({ how: "estimated", spend: "0.000029" });
  });

  test("outlives its object with what was reserved, and ends with the month", async () => {
    const name = crypto.randomUUID();
    const limitsMax = { spendPerMonthMaxMicros: 100 };
    const ask = async (outputTokensMax: number) => {
      const row = aRow({ pricing: { price: PRICE, outputTokensMax } });
      return { row, answer: await env.TENANTS.getByName(name).acquire({ row, limitsMax }) };
    };
    const { row, answer } = await ask(15);
    if (answer.kind !== "granted") throw new Error("The first request was refused");
    await answer.permit.recorded();
    await restart(name);
    expect((await ask(11)).answer).toMatchObject({ kind: "rejected", limit: "spend" });
    const ending = { promptTokens: 10, outputTokens: 5, cachedTokens: 4 };
    await env.TENANTS.getByName(name).settle(row, { kind: "counted", ...ending });
    await env.TENANTS.getByName(name).settle(row, { kind: "counted", ...ending });
    await restart(name);
    const { month, totals } = await env.TENANTS.getByName(name).usageOf("test");
    expect([month.spentPicos, month.reservedPicos]).toEqual([28_000_000n, 0n]);
    expect(totals.spentPicos).toBe(28_000_000n);
    expect((await ask(19)).answer.kind).toBe("rejected");
    expect((await ask(18)).answer.kind).toBe("granted");
    skipTime(32 * 86_400_000);
    const { month: next } = await env.TENANTS.getByName(name).usageOf("test");
    expect(next.spentPicos).toBe(0n);
  });

  test("of 200 requests at once lets exactly as many begin as it has room for", async () => {
    const name = crypto.randomUUID();
    const limitsMax = { spendPerMonthMaxMicros: 100 };
    const answers = await Promise.all(
      Array.from({ length: 200 }, () => {
        const row = aRow({ pricing: { price: PRICE, outputTokensMax: 2 } });
        return env.TENANTS.getByName(name).acquire({ row, limitsMax });
      }),
    );
    expect(answers.filter(({ kind }) => kind === "granted")).toHaveLength(12);
  });

  test("is nothing in a ledger that was stored before there were prices", async () => {
    const name = crypto.randomUUID();
    const totals = {
      requests: 1,
      promptTokens: 2,
      outputTokens: 3,
      cachedTokens: 0,
      estimatedRequests: 0,
    };
    const nothing = { requests: 0, promptTokens: 0, outputTokens: 0 };
    await runInDurableObject(env.TENANTS.getByName(name), async (_object, { storage }) => {
      await storage.put("usage-key:test", totals);
      await storage.put("usage-head", {
        totals,
        forgottenKeys: { ...nothing, cachedTokens: 0, estimatedRequests: 0 },
        opened: 1,
        refunded: 0,
        month: { number: 1, tokens: 5 },
        forgottenUntilAtMs: 0,
      });
    });
    await restart(name);
    const usage = await env.TENANTS.getByName(name).usageOf("test");
    expect(usage.totals).toEqual({ ...totals, spentPicos: 0n });
  });
});
