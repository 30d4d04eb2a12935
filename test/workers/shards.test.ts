import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, test, vi } from "vitest";
import * as z from "zod";
import { RequestId } from "../../src/protocol/ids.ts";
import type { LimitsMax } from "../../src/tenants/tenant-limits.ts";
import { placeOf, shardName } from "../../src/tenants/tenant-shards.ts";
import type { UsageRow } from "../../src/tenants/usage-rows.ts";
import type { TestGateway } from "./support/gateway.ts";
import { aGateway, fetchGateway, WAIT } from "./support/gateway.ts";
import { aRow } from "./support/limits.ts";
import { wholeAnswer } from "./support/upstream.ts";

const SHARDS = 4;
const PRICE = {
  inputPicosPerToken: 1_000_000,
  cachedInputPicosPerToken: 1_000_000,
  outputPicosPerToken: 1_000_000,
};

const objectOf = (name: string, shard: number) => env.TENANTS.getByName(shardName(name, shard));

function acquire(name: string, row: UsageRow, limitsMax: LimitsMax) {
  const place = placeOf(name, SHARDS, row.requestId);
  return objectOf(name, place.shard).acquire({ row, limitsMax }, place);
}

/** A row of a request that belongs to one of the objects. */
function aRowOf(shard: number, wish: Partial<UsageRow> = {}): UsageRow {
  for (;;) {
    const requestId = RequestId.parse(crypto.randomUUID());
    if (placeOf("", SHARDS, requestId).shard === shard) return aRow({ ...wish, requestId });
  }
}

async function restart(name: string, shard: number): Promise<void> {
  const ended = runInDurableObject(objectOf(name, shard), (_object, state) => {
    state.abort("the object ends");
  });
  await expect(ended).rejects.toThrow(/ends/);
}

async function grantedOf(answers: ReturnType<typeof acquire>[]) {
  return (await Promise.all(answers)).flatMap((answer) =>
    answer.kind === "granted" ? [answer.permit] : [],
  );
}

const counted = (promptTokens: number, outputTokens: number) =>
  ({ kind: "counted", promptTokens, outputTokens, cachedTokens: 0 }) as const;

describe("of 200 requests at once over four objects", () => {
  test.each([
    ["concurrency", { concurrencyMax: 10 }, 10, 1],
    ["requests of the minute", { requestsPerMinuteMax: 100 }, 100, 1],
    ["tokens of the minute", { tokensPerMinuteMax: 1_000 }, 100, 10],
    ["tokens of the month", { tokensPerMonthMax: 1_000 }, 100, 10],
    ["spend of the month", { spendPerMonthMaxMicros: 1_000 }, 100, 10],
  ])("as many begin as its %s allow", async (_, limitsMax, most, tokensMax) => {
    const name = crypto.randomUUID();
    const pricing = { price: PRICE, outputTokensMax: 10 };
    const ask = () => acquire(name, aRow({ tokensMax, pricing }), limitsMax);
    const permits = await grantedOf(Array.from({ length: 200 }, ask));
    expect(permits.length).toBeLessThanOrEqual(most);
    // An object may hold ahead what others lack.
    expect(permits.length).toBeGreaterThanOrEqual(0.8 * most);
  });

  test("all begin where nothing is limited, and all are counted", async () => {
    const name = crypto.randomUUID();
    const permits = await grantedOf(Array.from({ length: 200 }, () => acquire(name, aRow(), {})));
    expect(permits).toHaveLength(200);
    await Promise.all(permits.map((permit) => permit.release(counted(2, 1))));
    expect(await objectOf(name, 0).shardCount()).toBe(SHARDS);
  });
});

describe("one of a tenant's objects", () => {
  test("gives back what it does not use, and another one may take all of it", async () => {
    const name = crypto.randomUUID();
    const limitsMax = { concurrencyMax: 10 };
    const first = await grantedOf(
      Array.from({ length: 10 }, () => acquire(name, aRowOf(1), limitsMax)),
    );
    expect(first).toHaveLength(10);
    expect((await acquire(name, aRowOf(2), limitsMax)).kind).toBe("rejected");
    // By then it has renewed its lease with all of it in use, and does so until it is not.
    await scheduler.wait(2_200);
    await Promise.all(first.map((permit) => permit.release(counted(1, 1))));
    await vi.waitFor(async () => {
      const later = await grantedOf(
        Array.from({ length: 10 }, () => acquire(name, aRowOf(2), limitsMax)),
      );
      await Promise.all(later.map((permit) => permit.release({ kind: "refunded" })));
      expect(later).toHaveLength(10);
      // Long before the lease would be over.
    }, 4_000);
  });

  test("tells the limits of the whole tenant, and which of them refuses", async () => {
    const name = crypto.randomUUID();
    const limitsMax = { requestsPerMinuteMax: 100, tokensPerMinuteMax: 50 };
    using granted = await acquire(name, aRowOf(1, { tokensMax: 30 }), limitsMax);
    expect(granted).toMatchObject({
      kind: "granted",
      standings: { requests: { limit: 100, remaining: 99 }, tokens: { limit: 50, remaining: 20 } },
    });
    expect(await acquire(name, aRowOf(2, { tokensMax: 21 }), limitsMax)).toMatchObject({
      kind: "rejected",
      limit: "tokens",
      retryAfterMs: 2_000,
      standings: { tokens: { limit: 50 } },
    });
    for (const shard of [0, 2]) {
      // oxlint-disable-next-line no-await-in-loop -- one after the other
      expect(await acquire(name, aRowOf(shard, { tokensMax: 51 }), limitsMax)).toMatchObject({
        limit: "tokens",
        retryAfterMs: Infinity,
      });
    }
  });

  test("that dies keeps what it has used of the month, and its next life goes on with it", async () => {
    const name = crypto.randomUUID();
    const limitsMax = { tokensPerMonthMax: 1_000 };
    const row = aRowOf(1, { tokensMax: 600 });
    const answer = await acquire(name, row, limitsMax);
    if (answer.kind !== "granted") throw new Error("The first request was refused");
    await answer.permit.recorded();
    await restart(name, 1);
    const ask = (shard: number, tokensMax: number) =>
      acquire(name, aRowOf(shard, { tokensMax }), limitsMax);
    expect(await ask(2, 401)).toMatchObject({ kind: "rejected", limit: "month" });
    expect(await ask(0, 401)).toMatchObject({ kind: "rejected", limit: "month" });
    await objectOf(name, 1).settle(row, counted(5, 5));
    await objectOf(name, 1).settle(row, counted(5, 5));
    expect((await ask(1, 900)).kind).toBe("granted");
    expect((await objectOf(name, 1).usageOf("test")).totals).toMatchObject({ requests: 1 });
  });

  test("goes on where the first one dies, which has forgotten nobody's part", async () => {
    const name = crypto.randomUUID();
    const limitsMax = { tokensPerMonthMax: 1_000 };
    const ask = (shard: number, tokensMax: number) =>
      acquire(name, aRowOf(shard, { tokensMax }), limitsMax);
    using kept = await ask(3, 700);
    expect(kept.kind).toBe("granted");
    await restart(name, 0);
    expect((await ask(0, 301)).kind).toBe("rejected");
    expect((await ask(0, 250)).kind).toBe("granted");
    expect((await ask(2, 60)).kind).toBe("rejected");
  });

  test("has no part in what one object decides alone, once that has it back", async () => {
    const name = crypto.randomUUID();
    const limitsMax = { tokensPerMonthMax: 1_000 };
    const answer = await acquire(name, aRowOf(1, { tokensMax: 600 }), limitsMax);
    if (answer.kind !== "granted") throw new Error("The first request was refused");
    await answer.permit.release(counted(50, 50));
    // The tenant is no longer spread, and what it has used elsewhere still counts.
    const alone = (tokensMax: number) =>
      objectOf(name, 0).acquire({ row: aRow({ tokensMax }), limitsMax });
    expect((await alone(901)).kind).toBe("rejected");
    await vi.waitFor(async () => expect((await alone(900)).kind).toBe("granted"), WAIT);
  });
});

const ADMIN = { authorization: `Bearer ${env.SLUICE_ADMIN_KEY}` };

async function linesAfter({ tenantId }: TestGateway, query: string) {
  const page = await fetchGateway(`/admin/v1/tenants/${tenantId}/usage?${query}`, {
    headers: ADMIN,
  });
  const lines = (await page.text()).trim().split("\n");
  return lines.filter(Boolean).map((line): Record<string, unknown> => JSON.parse(line));
}

describe("a tenant over four objects", () => {
  test("is told to come again where one of them has no part and the first is away", async () => {
    vi.spyOn(console, "error").mockImplementation(() => {});
    const gateway = await aGateway({ tenant: { shards: SHARDS, concurrencyMax: 64 } });
    await gateway.upstream.answerWith(wholeAnswer("a"));
    const blocked = runInDurableObject(objectOf(gateway.tenantId, 0), (_object, state) =>
      state.blockConcurrencyWhile(() => scheduler.wait(3_000)),
    );
    const answers = await Promise.all(Array.from({ length: 16 }, () => gateway.ask()));
    const statuses = new Set(answers.map(({ status }) => status));
    expect(statuses.has(503)).toBe(true);
    expect([...statuses].filter((status) => status !== 200 && status !== 503)).toEqual([]);
    const refused = answers.find(({ status }) => status === 503);
    expect(refused?.headers.get("retry-after")).toBe("1");
    await blocked;
  });

  test("is answered, counted once a request, and told of as one", async () => {
    const gateway = await aGateway({
      price: PRICE,
      replicaCount: 2,
      tenant: { shards: SHARDS, concurrencyMax: 64, tokensPerMonthMax: 100_000 },
    });
    await gateway.upstream.answerWith(wholeAnswer("a"));
    const open = await grantedOf(
      [1, 2].map((shard) => acquire(gateway.tenantId, aRowOf(shard, { tokensMax: 7 }), {})),
    );
    const ask = () => gateway.ask({ body: { max_tokens: 5 } });
    const answers = await Promise.all(Array.from({ length: 24 }, ask));
    expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 200));
    await Promise.all(answers.map((answer) => answer.text()));
    const ids = answers.map(({ headers }) => headers.get("x-request-id"));
    const usage = await fetchGateway("/v1/usage", {
      headers: { authorization: `Bearer ${gateway.key}` },
    });
    expect(await usage.json()).toMatchObject({
      requests: 24,
      prompt_tokens: 24 * 12,
      completion_tokens: 24 * 3,
      spend: "0.00036",
      tenant: { open_requests: 2, month_tokens: 24 * 15, month_tokens_reserved: 14 },
    });
    await Promise.all(open.map((permit) => permit.release({ kind: "refunded" })));
    const lines = await linesAfter(gateway, "");
    expect(lines).toHaveLength(24);
    expect(new Set(lines.map(({ request_id }) => request_id))).toEqual(new Set(ids));
    expect(new Set(lines.map(({ shard }) => shard)).size).toBeGreaterThan(1);
    // Page by page it is the same lines.
    const paged: Record<string, unknown>[] = [];
    for (;;) {
      const after = z.string().parse(paged.at(-1)?.["cursor"] ?? "0");
      // oxlint-disable-next-line no-await-in-loop -- a page tells where the next one begins
      const page = await linesAfter(gateway, `limit=5&after=${after}`);
      if (page.length === 0) break;
      paged.push(...page);
    }
    expect(paged).toEqual(lines);
  });
});
