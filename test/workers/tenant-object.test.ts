import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, test, vi } from "vitest";
import { RequestId } from "../../src/protocol/ids.ts";
import { WAIT } from "./support/gateway.ts";
import { aRow, skipTime, usedOf } from "./support/limits.ts";

const requestIdOf = (index: number) => RequestId.parse(`req-${index}`);

/** A request of a tenant that is limited in nothing but what it may run at once. */
const aRequest = (index: number, concurrencyMax: number) => ({
  row: aRow({ requestId: requestIdOf(index) }),
  limitsMax: { concurrencyMax },
});

let tenantCount = 0;

/** The name of a tenant that no other test has used. */
function aTenantName(): string {
  tenantCount += 1;
  return `tenant-${tenantCount}`;
}

const aTenant = () => env.TENANTS.getByName(aTenantName());

/** Takes the tenant's only place and returns the permit. */
async function takeOnly(tenant: ReturnType<typeof aTenant>) {
  const answer = await tenant.acquire(aRequest(0, 1));
  if (answer.kind !== "granted") throw new Error("The first request was refused");
  return answer.permit;
}

const isFree = async (tenant: ReturnType<typeof aTenant>) => {
  using answer = await tenant.acquire(aRequest(1, 1));
  return answer.kind === "granted";
};

describe("TenantObject.acquire()", () => {
  test("of 200 requests at once, exactly as many are granted as may run", async () => {
    const tenant = aTenant();
    const answers = await Promise.all(
      Array.from({ length: 200 }, (_, index) => tenant.acquire(aRequest(index, 10))),
    );
    expect(answers.filter(({ kind }) => kind === "granted")).toHaveLength(10);
    expect(answers.filter(({ kind }) => kind === "rejected")).toHaveLength(190);
  });

  test("a refused request is told when to try again", async () => {
    const answer = await aTenant().acquire(aRequest(1, 0));
    expect(answer).toEqual({
      kind: "rejected",
      limit: "concurrency",
      retryAfterMs: 1000,
      standings: {},
    });
  });

  test("tenants do not share places", async () => {
    const [one, other] = [aTenant(), aTenant()];
    expect((await one.acquire(aRequest(1, 1))).kind).toBe("granted");
    expect((await other.acquire(aRequest(2, 1))).kind).toBe("granted");
  });
});

/** Ends the object as a deploy or a crash does; the next call finds a new one. */
async function restart(name: string): Promise<void> {
  const ended = runInDurableObject(env.TENANTS.getByName(name), (_object, state) => {
    state.abort("the object ends");
  });
  await expect(ended).rejects.toThrow(/ends/);
}

/** Waits until the object has stored that so many tokens are used. */
async function isStored(name: string, tokens: number): Promise<void> {
  await vi.waitFor(async () => {
    const stored = await runInDurableObject(env.TENANTS.getByName(name), (_object, state) =>
      state.storage.get("rates"),
    );
    expect(stored).toMatchObject({ tokens: { slots: [{ amount: tokens }] } });
  }, WAIT);
}

describe("a tenant's minute", () => {
  const limitsMax = { requestsPerMinuteMax: 100, tokensPerMinuteMax: 1000 };
  const ask = (name: string, index: number, tokensMax: number) =>
    env.TENANTS.getByName(name).acquire({
      row: aRow({ requestId: requestIdOf(index), tokensMax }),
      limitsMax,
    });

  test("of 200 requests at once lets exactly as many begin as fit, by requests or by tokens", async () => {
    const names = [aTenantName(), aTenantName()] as const;
    const granted = await Promise.all(
      names.map(async (name, place) => {
        const tokensMax = place === 0 ? 1 : 90;
        const indices = Array.from({ length: 200 }, (_, index) => index);
        const answers = await Promise.all(indices.map((index) => ask(name, index, tokensMax)));
        return answers.filter(({ kind }) => kind === "granted").length;
      }),
    );
    expect(granted).toEqual([100, 11]);
  });

  test("outlives its object, also with requests that were under way, and then is over", async () => {
    const name = aTenantName();
    using granted = await ask(name, 1, 600);
    expect(granted.kind).toBe("granted");
    await isStored(name, 600);
    await restart(name);
    expect(await ask(name, 2, 500)).toMatchObject({ kind: "rejected", limit: "tokens" });
    // With its object the permit is gone that would settle it.
    expect(await usedOf(name, limitsMax)).toEqual([1, 600]);
    skipTime(61_000);
    expect(await usedOf(name, limitsMax)).toEqual([0, 0]);
  });

  test("keeps over a restart what was settled before", async () => {
    const name = aTenantName();
    const answer = await ask(name, 1, 600);
    if (answer.kind !== "granted") throw new Error("The first request was refused");
    await isStored(name, 600);
    await answer.permit.release({
      kind: "counted",
      promptTokens: 30,
      outputTokens: 10,
      cachedTokens: 0,
    });
    await isStored(name, 40);
    await restart(name);
    expect(await usedOf(name, limitsMax)).toEqual([1, 40]);
  });

  test("begins anew where what was stored cannot be read", async () => {
    const name = aTenantName();
    vi.spyOn(console, "error").mockImplementation(() => {});
    await runInDurableObject(env.TENANTS.getByName(name), (_object, state) =>
      state.storage.put("rates", { slots: "none" }),
    );
    await restart(name);
    expect(await usedOf(name, limitsMax)).toEqual([0, 0]);
  });

  test("stays charged with a permit that is disposed of, which gives nothing but its place back", async () => {
    const name = aTenantName();
    const answer = await ask(name, 1, 600);
    if (answer.kind !== "granted") throw new Error("The first request was refused");
    answer.permit[Symbol.dispose]();
    expect(await usedOf(name, limitsMax)).toEqual([1, 600]);
  });
});

describe("a permit", () => {
  test("comes back when it is released, once", async () => {
    const tenant = aTenant();
    const permit = await takeOnly(tenant);
    await permit.release();
    const again = await tenant.acquire(aRequest(1, 1));
    expect(again.kind).toBe("granted");
    await permit.release();
    permit[Symbol.dispose]();
    expect((await tenant.acquire(aRequest(2, 1))).kind).toBe("rejected");
  });

  test("comes back when it is disposed of", async () => {
    const tenant = aTenant();
    const permit = await takeOnly(tenant);
    expect(await isFree(tenant)).toBe(false);
    permit[Symbol.dispose]();
    await expect.poll(() => isFree(tenant), { timeout: 10_000 }).toBe(true);
  });

  test("comes back when its holder crashes", async () => {
    const name = aTenantName();
    const holder = runInDurableObject(aTenant(), async (_object, state) => {
      await takeOnly(env.TENANTS.getByName(name));
      state.abort("the holder crashes");
    });
    await expect(holder).rejects.toThrow(/crashes/);
    await expect.poll(() => isFree(env.TENANTS.getByName(name)), { timeout: 10_000 }).toBe(true);
  });

  test("outlives the first of two holders of one request", async () => {
    const tenant = aTenant();
    const first = await takeOnly(tenant);
    const second = await takeOnly(tenant);
    await first.release();
    expect(await isFree(tenant)).toBe(false);
    await second.release();
    expect(await isFree(tenant)).toBe(true);
  });
});
