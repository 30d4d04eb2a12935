import { runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import type { UsageRow } from "../../src/tenants/usage-rows.ts";
import { LedgerLine } from "../../workers/ledger-line.ts";
import { StoredUsage } from "../../workers/stored-usage.ts";
import { streamThatGoesOn } from "./support/answers.ts";
import type { TestGateway } from "./support/gateway.ts";
import { aGateway, becomesIdle, fetchGateway, readEvents, WAIT } from "./support/gateway.ts";
import { aRow, skipTime } from "./support/limits.ts";
import { prefillingAt } from "./support/replica.ts";
import { jsonAnswer, streamedAnswer, wholeAnswer } from "./support/upstream.ts";

const PROMPT_TOKENS = 21;
const HANG = { kind: "hang" } as const;
const WHOLE = { body: { max_tokens: 50 } };
const STREAM = { body: { max_tokens: 50, stream: true } };

function askUsage(key: string, init: RequestInit = {}): Promise<Response> {
  return fetchGateway("/v1/usage", { ...init, headers: { authorization: `Bearer ${key}` } });
}

async function usageOf({ key }: TestGateway) {
  const usage: Record<string, unknown> = await (await askUsage(key)).json();
  return usage;
}

/** Requests, prompt and output tokens, and how many requests were not counted by their replica. */
async function totalsOf(gateway: TestGateway): Promise<readonly unknown[]> {
  const usage = await usageOf(gateway);
  const { requests, prompt_tokens, completion_tokens, estimated_requests } = usage;
  return [requests, prompt_tokens, completion_tokens, estimated_requests];
}

async function leavesAt(gateway: TestGateway, totals: readonly number[]): Promise<void> {
  await vi.waitFor(async () => expect(await totalsOf(gateway)).toEqual(totals), WAIT);
}

async function restart(tenantId: string): Promise<void> {
  const ended = runInDurableObject(env.TENANTS.getByName(tenantId), (_object, state) => {
    state.abort("the object ends");
  });
  await expect(ended).rejects.toThrow(/ends/);
}

/** Requests that are written down as open, as the next life of the object would find them. */
async function openOnDisk(tenantId: string): Promise<number> {
  return runInDurableObject(env.TENANTS.getByName(tenantId), (_object, { storage }) => {
    return [...storage.kv.list({ prefix: "usage-open:" })].length;
  });
}

/** What was last heard of requests that are written down as open. */
async function heardOnDisk(tenantId: string): Promise<(number | undefined)[]> {
  return runInDurableObject(env.TENANTS.getByName(tenantId), (_object, { storage }) => {
    const rows = storage.kv.list<{ outputTokens?: number }>({ prefix: "usage-open:" });
    return [...rows].map(([, { outputTokens }]) => outputTokens);
  });
}

describe("GET /v1/usage", () => {
  test("tells what the key has used, exactly as its replica has counted it", async () => {
    const gateway = await aGateway();
    await gateway.upstream.answerWith(wholeAnswer("a"), streamedAnswer(["a", "b"]));
    await (await gateway.ask(WHOLE)).text();
    await readEvents(await gateway.ask(STREAM));
    const headers = { authorization: `Bearer ${gateway.key}`, origin: "https://app.example" };
    const response = await fetchGateway("/v1/usage", { headers });
    expect(response.headers.get("x-request-id")).toMatch(/^req_/);
    expect(response.headers.get("access-control-allow-origin")).toBe("*");
    expect(await response.json()).toEqual({
      object: "usage",
      key: expect.any(String),
      requests: 2,
      prompt_tokens: 24,
      completion_tokens: 5,
      cached_tokens: 0,
      estimated_requests: 0,
      spend: "0",
      tenant: {
        open_requests: 0,
        month: new Date().toISOString().slice(0, 7),
        month_tokens: 29,
        month_tokens_reserved: 0,
        month_tokens_limit: null,
        month_spend: "0",
        month_spend_reserved: "0",
        month_spend_limit: null,
      },
    });
  });

  test("tells a key nothing of another tenant", async () => {
    const gateway = await aGateway();
    await gateway.upstream.answerWith(wholeAnswer("a"));
    await (await gateway.ask(WHOLE)).text();
    expect(await (await askUsage(gateway.otherKey)).json()).toMatchObject({ requests: 0 });
  });

  test("is never limited, and counts as nothing itself", async () => {
    const gateway = await aGateway({ tenant: { concurrencyMax: 1, requestsPerMinuteMax: 1 } });
    await gateway.upstream.answerWith(streamThatGoesOn(["a"], HANG));
    const left = new AbortController();
    const held = await gateway.ask({ ...STREAM, signal: left.signal });
    for (const _ of [1, 2, 3]) {
      // oxlint-disable-next-line no-await-in-loop -- one after the other
      expect((await askUsage(gateway.key)).status).toBe(200);
    }
    expect(await usageOf(gateway)).toMatchObject({ requests: 0, tenant: { open_requests: 1 } });
    left.abort();
    await held.body?.cancel().catch(() => {});
    await leavesAt(gateway, [1, PROMPT_TOKENS, 1, 1]);
  });

  test("needs a key, and has no other methods", async () => {
    const gateway = await aGateway();
    expect((await fetchGateway("/v1/usage")).status).toBe(401);
    const posted = await askUsage(gateway.key, { method: "POST" });
    expect([posted.status, posted.headers.get("allow")]).toEqual([405, "GET, HEAD, OPTIONS"]);
    const head = await askUsage(gateway.key, { method: "HEAD" });
    expect([head.status, await head.text()]).toEqual([200, ""]);
  });
});

const ADMIN = { authorization: `Bearer ${env.SLUICE_ADMIN_KEY}` };

function exportOf(tenantId: string, query = "", init: RequestInit = {}): Promise<Response> {
  return fetchGateway(`/admin/v1/tenants/${tenantId}/usage${query}`, { headers: ADMIN, ...init });
}

describe("GET /admin/v1/tenants/{tenant}/usage", () => {
  test("tells every counted request, page by page", async () => {
    const { ask, upstream, tenantId } = await aGateway();
    await upstream.answerWith(wholeAnswer("a"), streamThatGoesOn(["a"], { kind: "end" }));
    const first = await ask(WHOLE);
    await (await ask(STREAM)).text();
    const page = await exportOf(tenantId, "?limit=1");
    expect(page.headers.get("content-type")).toBe("application/x-ndjson");
    expect(JSON.parse(await page.text())).toEqual({
      number: 1,
      request_id: first.headers.get("x-request-id"),
      key: expect.any(String),
      model: "sluice-tiny",
      began_at: expect.stringMatching(/Z$/),
      settled_at: expect.stringMatching(/Z$/),
      how: "counted",
      prompt_tokens: 12,
      completion_tokens: 3,
      cached_tokens: 0,
      estimated: false,
      spend: "0",
    });
    expect(JSON.parse(await (await exportOf(tenantId, "?after=1")).text())).toMatchObject({
      number: 2,
      how: "estimated",
      completion_tokens: 1,
    });
    expect(await (await exportOf(tenantId, "?after=2")).text()).toBe("");
  });

  test("needs the admin key, a tenant that exists and a page that makes sense", async () => {
    const { key, tenantId } = await aGateway();
    const headers = { authorization: `Bearer ${key}` };
    const statuses = await Promise.all([
      exportOf(tenantId, "", { headers }),
      exportOf("nobody"),
      exportOf(tenantId, "?limit=1001"),
      exportOf(tenantId, "?limit=0"),
      exportOf(tenantId, "?after=-1"),
      exportOf(tenantId, "", { method: "DELETE", headers: ADMIN }),
    ]);
    expect(statuses.map(({ status }) => status)).toEqual([403, 404, 400, 400, 400, 405]);
  });
});

describe("what a request is counted as", () => {
  test("that its pool refuses is nothing", async () => {
    const gateway = await aGateway({ replica: { report: prefillingAt(1000) } });
    expect((await gateway.ask(STREAM)).status).toBe(400);
    expect(await totalsOf(gateway)).toEqual([0, 0, 0, 0]);
    await vi.waitFor(async () => expect(await openOnDisk(gateway.tenantId)).toBe(0), WAIT);
  });

  test("whose replicas fail is a request without tokens", async () => {
    const gateway = await aGateway();
    await gateway.upstream.answerWith([{ kind: "reset" }]);
    expect((await gateway.ask(WHOLE)).status).toBe(502);
    expect(await totalsOf(gateway)).toEqual([1, 0, 0, 0]);
  });

  test("that breaks off is its prompt and what came of it", async () => {
    const gateway = await aGateway();
    await gateway.upstream.answerWith(streamThatGoesOn(["a", "b"], { kind: "end" }));
    await (await gateway.ask(STREAM)).text();
    expect(await totalsOf(gateway)).toEqual([1, PROMPT_TOKENS, 2, 1]);
  });

  test.each([
    [0, 0],
    [0, 3],
    [1, 1],
    [1, 3],
    [3, 3],
  ])(
    "whose client leaves with %i tokens of the %i that there are is between these",
    async (readTokens, sentTokens) => {
      const gateway = await aGateway();
      const words = ["a", "b", "c"].slice(0, sentTokens);
      await gateway.upstream.answerWith(streamThatGoesOn(words, HANG));
      const left = new AbortController();
      const asked = gateway.ask({ ...STREAM, signal: left.signal });
      await vi.waitFor(async () => {
        expect(await gateway.upstream.requests()).toHaveLength(1);
      }, WAIT);
      const read = async (): Promise<void> => {
        const reader = (await asked).body?.getReader();
        const utf8 = new TextDecoder();
        // The role comes with an empty content.
        for (let text = ""; text.split(/"content":"[^"]/).length - 1 < readTokens;) {
          // oxlint-disable-next-line no-await-in-loop -- one piece after the other
          text += utf8.decode((await reader?.read())?.value, { stream: true });
        }
      };
      if (readTokens > 0) await read();
      left.abort();
      await asked.catch(() => {});
      await vi.waitFor(
        async () => expect(await usageOf(gateway)).toMatchObject({ requests: 1 }),
        WAIT,
      );
      const [, promptTokens, outputTokens, estimated] = await totalsOf(gateway);
      expect([promptTokens, estimated]).toEqual([PROMPT_TOKENS, 1]);
      expect(outputTokens).toBeGreaterThanOrEqual(readTokens);
      expect(outputTokens).toBeLessThanOrEqual(sentTokens);
      await becomesIdle(gateway);
    },
  );

  test("whose client leaves before a whole answer is its prompt", async () => {
    const gateway = await aGateway();
    await gateway.upstream.answerWith([HANG]);
    const left = new AbortController();
    const asked = gateway.ask({ ...WHOLE, signal: left.signal });
    await vi.waitFor(async () => {
      expect(await gateway.upstream.requests()).toHaveLength(1);
    }, WAIT);
    left.abort();
    await expect(asked).rejects.toThrow(/abort/);
    await leavesAt(gateway, [1, PROMPT_TOKENS, 0, 1]);
  });

  test("that a second replica answers is one request", async () => {
    const gateway = await aGateway({ replicaCount: 2 });
    await gateway.upstream.answerWith([{ kind: "reset" }], wholeAnswer("a"));
    expect((await gateway.ask(WHOLE)).status).toBe(200);
    expect(await totalsOf(gateway)).toEqual([1, 12, 3, 0]);
  });
});

describe("a tenant's month", () => {
  const BOUND = PROMPT_TOKENS + 50;

  test("that is used up refuses for good, before any pool is asked", async () => {
    const gateway = await aGateway({ tenant: { tokensPerMonthMax: BOUND + 14 } });
    await gateway.upstream.answerWith(wholeAnswer("a"));
    expect((await gateway.ask(WHOLE)).status).toBe(200);
    const response = await gateway.ask(WHOLE);
    expect(response.status).toBe(429);
    expect(response.headers.get("x-should-retry")).toBe("false");
    expect(response.headers.get("retry-after")).toBeNull();
    expect(await response.json()).toMatchObject({
      error: { code: "insufficient_quota", type: "insufficient_quota" },
    });
    expect(await gateway.poolStatus()).toMatchObject({ offered: 1 });
    expect(await usageOf(gateway)).toMatchObject({
      requests: 1,
      tenant: { month_tokens: 15, month_tokens_limit: BOUND + 14 },
    });
    skipTime(32 * 86_400_000);
    const { tenantId } = gateway;
    const row = aRow({ tokensMax: BOUND });
    const limitsMax = { tokensPerMonthMax: BOUND };
    using next = await env.TENANTS.getByName(tenantId).acquire({ row, limitsMax });
    expect(next.kind).toBe("granted");
  });

  test("counts as used what is reserved, and gives it back, also what outlived its object", async () => {
    const name = crypto.randomUUID();
    const limitsMax = { tokensPerMonthMax: 100 };
    const ask = async (tokensMax: number) => {
      const row = aRow({ tokensMax });
      return { row, answer: await env.TENANTS.getByName(name).acquire({ row, limitsMax }) };
    };
    const { row, answer } = await ask(60);
    if (answer.kind === "granted") await answer.permit.recorded();
    await restart(name);
    expect((await ask(41)).answer).toMatchObject({ kind: "rejected", limit: "month" });
    await env.TENANTS.getByName(name).settle(row, counted(5, 5));
    expect((await ask(90)).answer.kind).toBe("granted");
  });
});

const counted = (promptTokens: number, outputTokens: number) =>
  ({ kind: "counted", promptTokens, outputTokens, cachedTokens: 0 }) as const;

/** Begins a request of a tenant. */
async function begin(name: string, row: UsageRow = aRow()) {
  const answer = await env.TENANTS.getByName(name).acquire({ row, limitsMax: {} });
  if (answer.kind !== "granted") throw new Error("The request was refused");
  return { row, permit: answer.permit };
}

async function ledgerOf(name: string) {
  const usage = await env.TENANTS.getByName(name).usageOf("test");
  return { ...usage.totals, open: usage.openCount };
}

/** Storage of an object that was ended: it rejects what it is asked first, and throws at once later. */
function goneStorage(storage: DurableObjectStorage): DurableObjectStorage {
  const gone = new Error("The storage is gone");
  const sync = (): never => {
    throw gone;
  };
  const lost: Partial<DurableObjectStorage> = { put: async () => Promise.reject(gone), sync };
  return new Proxy(storage, {
    get: (target, name) => Reflect.get(name in lost ? lost : target, name),
  });
}

describe("the ledger of a tenant", () => {
  test("has on disk what was recorded and settled, whatever dies after it", async () => {
    const name = crypto.randomUUID();
    const [first, second] = [await begin(name), await begin(name)];
    await Promise.all([first.permit.recorded(), second.permit.recorded()]);
    await first.permit.release(counted(7, 3));
    await restart(name);
    expect(await ledgerOf(name)).toMatchObject({ requests: 1, promptTokens: 7, open: 1 });
    // Its holder has outlived the object, and says so to the next one.
    await env.TENANTS.getByName(name).settle(second.row, counted(1, 1));
    await env.TENANTS.getByName(name).settle(first.row, counted(7, 3));
    await restart(name);
    expect(await ledgerOf(name)).toMatchObject({ requests: 2, promptTokens: 8, open: 0 });
  });

  test("holds the places of requests that run, though the object died that granted them", async () => {
    const name = crypto.randomUUID();
    const ask = () =>
      env.TENANTS.getByName(name).acquire({ row: aRow(), limitsMax: { concurrencyMax: 1 } });
    const { row, permit } = await begin(name);
    await permit.recorded();
    await restart(name);
    expect(await ask()).toMatchObject({ kind: "rejected", limit: "concurrency" });
    await env.TENANTS.getByName(name).settle(row, counted(1, 1));
    expect((await ask()).kind).toBe("granted");
  });

  test("leaves no write to itself whose storage is gone, at one call or at the next", async () => {
    const leftAlone = vi.fn<() => void>();
    addEventListener("unhandledrejection", leftAlone);
    await runInDurableObject(env.TENANTS.getByName(crypto.randomUUID()), async (_object, state) => {
      const usage = new StoredUsage(goneStorage(state.storage), Date.now());
      usage.ledger.open(aRow(), Date.now());
      await expect(usage.saved("urgently")).rejects.toThrow("is gone");
      await scheduler.wait(1);
    });
    removeEventListener("unhandledrejection", leftAlone);
    expect(leftAlone).not.toHaveBeenCalled();
  });

  test("hears of a call that goes on every ten seconds how much has come, and no more once it is settled", async () => {
    vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
    onTestFinished(() => void vi.useRealTimers());
    const name = crypto.randomUUID();
    const told: Promise<void>[] = [];
    const tenantOf = () => {
      const tenant = env.TENANTS.getByName(name);
      const checkpoint: typeof tenant.checkpoint = (requestId, outputTokens) => {
        const written = tenant.checkpoint(requestId, outputTokens);
        told.push(written);
        return written;
      };
      return {
        record: (row: UsageRow) => tenant.record(row),
        settle: (...settled: Parameters<typeof tenant.settle>) => tenant.settle(...settled),
        checkpoint,
      };
    };
    const { row, permit } = await begin(name);
    let outputTokens = 0;
    const line = new LedgerLine({ row, permit, tenantOf, outputTokens: () => outputTokens });
    await line.recorded;
    // It is told to every life of the object: a stub of a former one tells nobody.
    for (const [index, tokens] of [4, 9].entries()) {
      outputTokens = tokens;
      vi.advanceTimersByTime(9_999);
      expect(told).toHaveLength(index);
      vi.advanceTimersByTime(1);
      expect(told).toHaveLength(index + 1);
      // oxlint-disable-next-line no-await-in-loop -- one after the other
      await told[index];
      // oxlint-disable-next-line no-await-in-loop -- as above
      expect(await heardOnDisk(name)).toEqual([tokens]);
      // oxlint-disable-next-line no-await-in-loop -- as above
      await restart(name);
    }
    await line.release(counted(5, 12), undefined);
    vi.advanceTimersByTime(60_000);
    expect(told).toHaveLength(2);
    expect(await ledgerOf(name)).toMatchObject({ requests: 1, outputTokens: 12, open: 0 });
  });

  test("is swept of what its holders left behind, by what was last heard of it", async () => {
    vi.spyOn(console, "error").mockImplementation(() => {});
    const name = crypto.randomUUID();
    const tenant = env.TENANTS.getByName(name);
    const disposed = await begin(name, aRow({ promptTokens: 4 }));
    await tenant.checkpoint(disposed.row.requestId, 9);
    disposed.permit[Symbol.dispose]();
    const former = await begin(name, aRow({ promptTokens: 5 }));
    await former.permit.recorded();
    await restart(name);
    expect(await openOnDisk(name)).toBe(2);
    skipTime(61_000);
    expect(await runDurableObjectAlarm(env.TENANTS.getByName(name))).toBe(true);
    expect(await ledgerOf(name)).toMatchObject({
      requests: 2,
      promptTokens: 9,
      outputTokens: 9,
      estimatedRequests: 2,
      open: 0,
    });
    expect(await openOnDisk(name)).toBe(0);
    expect(await runDurableObjectAlarm(env.TENANTS.getByName(name))).toBe(false);
  });

  test("is swept of them by the records of the replicas that served them, where there are any", async () => {
    vi.spyOn(console, "error").mockImplementation(() => {});
    const gateway = await aGateway();
    const name = crypto.randomUUID();
    const known = aRow({ poolId: gateway.poolId, promptTokens: 4 });
    const unknown = aRow({ poolId: gateway.poolId, promptTokens: 5 });
    await Promise.all(
      [known, unknown].map(async (row) => (await begin(name, row)).permit.recorded()),
    );
    const usage = [
      { request_id: known.requestId, prompt_tokens: 7, cached_tokens: 2, completion_tokens: 30 },
      { request_id: "not-asked", prompt_tokens: 7, cached_tokens: 2, completion_tokens: 30 },
    ];
    await gateway.upstream.answerWith(jsonAnswer({ usage }));
    await restart(name);
    await env.TENANTS.getByName(name).checkpoint(known.requestId, 9);
    skipTime(61_000);
    await runDurableObjectAlarm(env.TENANTS.getByName(name));
    expect(await ledgerOf(name)).toMatchObject({
      requests: 2,
      promptTokens: 7 + 5,
      outputTokens: 30,
      estimatedRequests: 1,
      open: 0,
    });
    const [asked, ...others] = await gateway.upstream.requests();
    expect(asked).toMatchObject({
      path: expect.stringMatching(/\/internal\/usage$/),
      headers: { authorization: expect.stringContaining("Bearer ") },
    });
    expect(others).toEqual([]);
  });

  test.each([
    ["of status 500", [{ kind: "head", status: 500, headers: {} }, { kind: "end" }] as const],
    ["that is no answer", jsonAnswer({ usage: [{ request_id: 1 }] })],
    ["that breaks off", jsonAnswer({}).slice(0, 1)],
  ])("is swept of them all the same after an answer %s", async (_, answer) => {
    vi.spyOn(console, "error").mockImplementation(() => {});
    const gateway = await aGateway();
    const name = crypto.randomUUID();
    const { row, permit } = await begin(name, aRow({ poolId: gateway.poolId, promptTokens: 4 }));
    await permit.recorded();
    await gateway.upstream.answerWith(answer);
    await restart(name);
    await env.TENANTS.getByName(name).checkpoint(row.requestId, 9);
    skipTime(61_000);
    await runDurableObjectAlarm(env.TENANTS.getByName(name));
    const settled = {
      requests: 1,
      promptTokens: 4,
      outputTokens: 9,
      estimatedRequests: 1,
      open: 0,
    };
    expect(await ledgerOf(name)).toMatchObject(settled);
  });

  test("asks nobody after requests of a server that is not ours, which gets no secret of ours", async () => {
    vi.spyOn(console, "error").mockImplementation(() => {});
    const gateway = await aGateway({ pool: { engine: "openai" } });
    const name = crypto.randomUUID();
    const { permit } = await begin(name, aRow({ poolId: gateway.poolId }));
    await permit.recorded();
    await restart(name);
    await env.TENANTS.getByName(name).usageOf("key");
    skipTime(61_000);
    await runDurableObjectAlarm(env.TENANTS.getByName(name));
    expect(await ledgerOf(name)).toMatchObject({ requests: 1, open: 0 });
    expect(await gateway.upstream.requests()).toEqual([]);
  });

  test("lets no stream of a tenant wait for another one's write", async () => {
    const name = crypto.randomUUID();
    const begun = await Promise.all(Array.from({ length: 200 }, () => begin(name)));
    const [syncs] = await runInDurableObject(env.TENANTS.getByName(name), (_object, state) => {
      return [vi.spyOn(state.storage, "sync")];
    });
    await Promise.all(begun.map(({ permit }) => permit.release(counted(1, 1))));
    expect(syncs.mock.calls.length).toBeLessThan(50);
    expect(await ledgerOf(name)).toMatchObject({ requests: 200, open: 0 });
  });

  test("that cannot be read is not begun anew", async () => {
    const name = crypto.randomUUID();
    await runInDurableObject(env.TENANTS.getByName(name), async (_object, { storage }) => {
      await storage.put("usage-head", { totals: "none" });
      expect(() => new StoredUsage(storage, Date.now())).toThrow(/totals/);
    });
  });

  test("outlives its object under an answer: the call tells the next one, and is counted once", async () => {
    const gateway = await aGateway();
    await gateway.upstream.answerWith(
      streamThatGoesOn(
        ["a"],
        { kind: "gate", name: "end" },
        ...streamedAnswer(["b", "c"]).slice(3),
      ),
    );
    const response = await gateway.ask(STREAM);
    await restart(gateway.tenantId);
    await gateway.upstream.openGate("end");
    expect((await readEvents(response)).at(-1)).toEqual({ data: "[DONE]" });
    expect(await totalsOf(gateway)).toEqual([1, 12, 2, 0]);
    await becomesIdle(gateway);
    expect(await usageOf(gateway)).toMatchObject({ tenant: { open_requests: 0 } });
  });
});
