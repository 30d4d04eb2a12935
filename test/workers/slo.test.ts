import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, test, vi } from "vitest";
import { BUILT_IN_CLASSES } from "../../src/slo/targets.ts";
import { streamThatGoesOn } from "./support/answers.ts";
import { aLiveConfiguration, applyConfiguration } from "./support/configuration.ts";
import type { TestGateway } from "./support/gateway.ts";
import { aGateway, becomesIdle, fetchGateway, WAIT } from "./support/gateway.ts";
import { aRow } from "./support/limits.ts";
import { streamedAnswer, wholeAnswer } from "./support/upstream.ts";
import { TenantId } from "../../src/protocol/ids.ts";

const ADMIN = { authorization: "Bearer sluice-local-admin-key-of-the-tests" };
const SHORT = { max_tokens: 4 };
const BULK = { className: "bulk", targets: BUILT_IN_CLASSES["bulk"] ?? {} };

interface Window {
  readonly [name: string]: unknown;
}
interface Report {
  readonly tenant: string;
  readonly classes: readonly { readonly class: string; readonly windows: Record<string, Window> }[];
}

async function get<Body>(path: string, headers: Record<string, string>): Promise<Body> {
  const response = await fetchGateway(path, { headers });
  expect(response.status).toBe(200);
  expect(response.headers.get("cache-control")).toBe("no-store");
  return response.json();
}

const reportOf = ({ key }: TestGateway): Promise<Report> =>
  get("/v1/slo", { authorization: `Bearer ${key}` });

async function windowOf(
  gateway: TestGateway,
  className = "standard",
  name = "5m",
): Promise<Window> {
  const { classes } = await reportOf(gateway);
  return classes.find((one) => one.class === className)?.windows[name] ?? {};
}

async function restart(tenantId: string): Promise<void> {
  const ended = runInDurableObject(env.TENANTS.getByName(tenantId), (_object, state) => {
    state.abort("the object ends");
  });
  await expect(ended).rejects.toThrow(/ends/);
}

const allGood = (count: number) => ({
  offered: count,
  good: count,
  missed: 0,
  refused: 0,
  attainment: 1,
  error_budget_left: 1,
  burn_rate: 0,
  acceptance: 1,
});

const statusOf = async (path: string, headers: Record<string, string> = ADMIN) =>
  (await fetchGateway(path, { headers })).status;

describe("GET /v1/slo", () => {
  test("tells a key's tenant what was promised, and how that was kept, class by class", async () => {
    const gateway = await aGateway({ tenant: { classes: [BULK] } });
    await gateway.upstream.answerWith(wholeAnswer("a"));
    for (let count = 0; count < 3; count += 1) {
      // oxlint-disable-next-line no-await-in-loop -- one after the other
      await gateway.ask({ body: SHORT });
    }
    await gateway.ask({ headers: { "x-sluice-class": "bulk" }, body: SHORT });
    const report = await reportOf(gateway);
    expect(report).toMatchObject({
      object: "slo",
      tenant: gateway.tenantId,
      classes: [
        { class: "bulk", targets: { ttft: { percentile: 0.99, limit_ms: 10_000 } } },
        { class: "standard", targets: { ttft: { limit_ms: 5_000 }, tpot: { limit_ms: 1_000 } } },
      ],
    });
    for (const name of ["5m", "1h", "30d"]) {
      // oxlint-disable-next-line no-await-in-loop -- one after the other
      expect(await windowOf(gateway, "standard", name)).toMatchObject(allGood(3));
      // oxlint-disable-next-line no-await-in-loop -- one after the other
      expect(await windowOf(gateway, "bulk", name)).toMatchObject(allGood(1));
    }
  });

  test("tells refusals by their reason, of the tenant's limits and of the pool", async () => {
    const targets = { e2e: { percentileRatio: 0.99, limitMs: 3_000 } };
    const gateway = await aGateway({ tenant: { targets, concurrencyMax: 1 } });
    await gateway.upstream.answerWith(
      streamThatGoesOn(["a"], { kind: "gate", name: "end" }, ...streamedAnswer([]).slice(2)),
    );
    const first = await gateway.ask({ body: { ...SHORT, stream: true } });
    expect((await gateway.ask({ body: SHORT })).status).toBe(429);
    await gateway.upstream.openGate("end");
    await first.text();
    expect((await gateway.ask({ body: { max_tokens: 2_000 } })).status).toBe(503);
    expect(await windowOf(gateway)).toMatchObject({
      offered: 3,
      good: 1,
      refused: 2,
      refusals: { concurrency: 1, infeasible: 1 },
      // The one within the guarantee is our fault, the one beyond the limit the tenant's.
      attainment: 0.5,
      acceptance: 0.5,
    });
  });

  test("tells what a miss was made of", async () => {
    const targets = { ttft: { percentileRatio: 0.99, limitMs: 5_000 }, tbtMaxMs: 200 };
    const gateway = await aGateway({ tenant: { targets } });
    await gateway.upstream.answerWith([
      ...streamThatGoesOn(["a"], { kind: "pause", ms: 800 }),
      ...streamedAnswer(["b"]).slice(2),
    ]);
    await (await gateway.ask({ body: { ...SHORT, stream: true } })).text();
    expect(await windowOf(gateway)).toMatchObject({ missed: 1, misses: { stall: 1 } });
    await gateway.upstream.answerWith([{ kind: "reset" }]);
    expect((await gateway.ask({ body: SHORT })).status).toBe(502);
    await becomesIdle(gateway);
    expect(await windowOf(gateway)).toMatchObject({ missed: 2, misses: { stall: 1, replica: 1 } });
  });

  test("counts degraded answers apart, under one request, wherever they came from", async () => {
    const gateway = await aGateway({
      tenant: {
        targets: { e2e: { percentileRatio: 0.99, limitMs: 3_000 } },
        overload: [{ kind: "clamp", outputTokensMax: 8 }],
      },
    });
    await gateway.upstream.answerWith(wholeAnswer("a"));
    await gateway.ask({ body: { max_tokens: 2_000 } });
    expect(await windowOf(gateway)).toMatchObject({ offered: 1, good: 0, degraded: 1, refused: 0 });
  });

  test("counts nothing of requests that are wrong, or that it refused a key for", async () => {
    const gateway = await aGateway();
    await gateway.ask({ body: { model: "nobody" } });
    await gateway.ask({ body: { messages: [] } });
    expect((await fetchGateway("/v1/slo")).status).toBe(401);
    expect(await windowOf(gateway)).toMatchObject({ offered: 0, attainment: null });
  });

  test("does not hold a wish that is tighter than the promise against anybody", async () => {
    const gateway = await aGateway();
    const headers = { "x-sluice-tpot-ms": "0.5" };
    expect((await gateway.ask({ headers, body: { ...SHORT, stream: true } })).status).toBe(503);
    expect(await windowOf(gateway)).toMatchObject({
      refusals: { infeasible: 1 },
      attainment: null,
      acceptance: null,
    });
  });

  test("counts once what it is told twice, by a permit and by who could not tell whether it arrived", async () => {
    const gateway = await aGateway();
    const tenant = env.TENANTS.getByName(gateway.tenantId);
    const row = aRow();
    const told = {
      className: "standard",
      event: { kind: "refused", reason: "infeasible", isOurs: true },
    } as const;
    const answer = await tenant.acquire({ row, limitsMax: {} });
    if (answer.kind !== "granted") throw new Error("Nothing limits it");
    await answer.permit.release({ kind: "refunded" }, told);
    await answer.permit.release({ kind: "refunded" }, told);
    await tenant.settle(row, { kind: "refunded" }, told);
    answer.permit[Symbol.dispose]();
    expect(await windowOf(gateway)).toMatchObject({ offered: 1 });
  });

  test("outlives its tenant's object, to what it was two seconds before", async () => {
    const gateway = await aGateway();
    await gateway.upstream.answerWith(wholeAnswer("a"));
    await gateway.ask({ body: SHORT });
    await vi.waitFor(async () => {
      const stored = await runInDurableObject(
        env.TENANTS.getByName(gateway.tenantId),
        async (_object, state) => state.storage.list({ prefix: "slo:" }),
      );
      // A minute's and an hour's.
      expect(stored.size).toBe(2);
    }, WAIT);
    await restart(gateway.tenantId);
    await gateway.ask({ body: SHORT });
    expect(await windowOf(gateway)).toMatchObject({ good: 2 });
    expect(await windowOf(gateway, "standard", "30d")).toMatchObject({ good: 2 });
  });

  test("sums over the objects that a tenant is spread over", async () => {
    const gateway = await aGateway({ tenant: { shards: 3 } });
    await gateway.upstream.answerWith(wholeAnswer("a"));
    await Promise.all(Array.from({ length: 12 }, () => gateway.ask({ body: SHORT })));
    const { offered, good, refused } = await windowOf(gateway);
    expect(offered).toBe(12);
    expect(Number(good) + Number(refused)).toBe(12);
  });
});

describe("GET /admin/v1/slo", () => {
  interface Page {
    readonly data: readonly Report[];
    readonly has_more: boolean;
  }

  test("tells of one tenant, or of all of them a page at a time", async () => {
    const tenants = ["b", "a", "c"].map((name) => ({ tenantId: TenantId.parse(name) }));
    await applyConfiguration(aLiveConfiguration({ tenants, keys: [] }));
    const one = await get<Report>("/admin/v1/slo?tenant=b", ADMIN);
    expect(one).toMatchObject({ object: "slo", tenant: "b", classes: [{ class: "standard" }] });
    const first = await get<Page>("/admin/v1/slo?limit=2", ADMIN);
    expect(first.data.map(({ tenant }) => tenant)).toEqual(["a", "b"]);
    expect(first.has_more).toBe(true);
    const last = await get<Page>("/admin/v1/slo?limit=2&after=b", ADMIN);
    expect(last.data.map(({ tenant }) => tenant)).toEqual(["c"]);
    expect(last.has_more).toBe(false);
  });

  test("needs the admin key, a known tenant and a page of some size", async () => {
    await applyConfiguration(aLiveConfiguration());
    expect(await statusOf("/admin/v1/slo", {})).toBe(401);
    expect(await statusOf("/admin/v1/slo?tenant=nobody")).toBe(404);
    expect(await statusOf("/admin/v1/slo?tenant=__proto__")).toBe(404);
    for (const query of ["limit=0", "limit=101", "limit=x", `tenant=${"x".repeat(65)}`]) {
      // oxlint-disable-next-line no-await-in-loop -- one after the other
      expect(await statusOf(`/admin/v1/slo?${query}`)).toBe(400);
    }
  });
});
