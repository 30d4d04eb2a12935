import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, test } from "vitest";
import { RequestId } from "../../src/protocol/ids.ts";

const requestIdOf = (index: number) => RequestId.parse(`req-${index}`);

let tenantCount = 0;

/** The name of a tenant that no other test has used. */
function aTenantName(): string {
  tenantCount += 1;
  return `tenant-${tenantCount}`;
}

const aTenant = () => env.TENANTS.getByName(aTenantName());

/** Takes the tenant's only place and returns the permit. */
async function takeOnly(tenant: ReturnType<typeof aTenant>) {
  const answer = await tenant.acquire(requestIdOf(0), 1);
  if (answer.kind !== "granted") throw new Error("The first request was refused");
  return answer.permit;
}

const isFree = async (tenant: ReturnType<typeof aTenant>) => {
  using answer = await tenant.acquire(requestIdOf(1), 1);
  return answer.kind === "granted";
};

describe("TenantObject.acquire()", () => {
  test("of 200 requests at once, exactly as many are granted as may run", async () => {
    const tenant = aTenant();
    const answers = await Promise.all(
      Array.from({ length: 200 }, (_, index) => tenant.acquire(requestIdOf(index), 10)),
    );
    expect(answers.filter(({ kind }) => kind === "granted")).toHaveLength(10);
    expect(answers.filter(({ kind }) => kind === "rejected")).toHaveLength(190);
  });

  test("a refused request is told when to try again", async () => {
    const answer = await aTenant().acquire(requestIdOf(1), 0);
    expect(answer).toEqual({ kind: "rejected", retryAfterMs: 1000 });
  });

  test("tenants do not share places", async () => {
    const [one, other] = [aTenant(), aTenant()];
    expect((await one.acquire(requestIdOf(1), 1)).kind).toBe("granted");
    expect((await other.acquire(requestIdOf(2), 1)).kind).toBe("granted");
  });
});

describe("a permit", () => {
  test("comes back when it is released, once", async () => {
    const tenant = aTenant();
    const permit = await takeOnly(tenant);
    await permit.release();
    const again = await tenant.acquire(requestIdOf(1), 1);
    expect(again.kind).toBe("granted");
    await permit.release();
    permit[Symbol.dispose]();
    expect((await tenant.acquire(requestIdOf(2), 1)).kind).toBe("rejected");
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
