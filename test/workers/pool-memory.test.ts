import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, test, vi } from "vitest";
import { PoolObject } from "../../workers/pool-object.ts";
import { refusal } from "./support/answers.ts";
import type { TestGateway } from "./support/gateway.ts";
import { aGateway, becomesIdle } from "./support/gateway.ts";
import { wholeAnswer } from "./support/upstream.ts";

/** Kept within some seconds of the last request. */
const PATIENCE = { timeout: 15_000, interval: 200 };

const stubOf = ({ poolId }: TestGateway) => env.POOLS.getByName(poolId);

async function keptText(gateway: TestGateway): Promise<string> {
  return runInDurableObject(stubOf(gateway), (_object, state) =>
    String(state.storage.kv.get("pool") ?? ""),
  );
}

/** What the object's next life says of the pool, whose storage is as `prepare` leaves it. */
async function nextLife(
  gateway: TestGateway,
  prepare: (storage: DurableObjectStorage) => void = () => {},
) {
  return runInDurableObject(stubOf(gateway), async (_object, state) => {
    prepare(state.storage);
    return new PoolObject(state, env).status(gateway.poolId);
  });
}

/** A pool of two servers that are not ours, of which 5 requests were good. */
async function aPoolThatLearned(): Promise<TestGateway> {
  const gateway = await aGateway({ pool: { engine: "openai" }, replicaCount: 2 });
  await gateway.upstream.answerWith(wholeAnswer("a"));
  for (let count = 0; count < 5; count += 1) {
    // oxlint-disable-next-line no-await-in-loop -- one after the other
    expect((await gateway.ask()).status).toBe(200);
  }
  await becomesIdle(gateway);
  return gateway;
}

describe("the object of a pool that ends while it is idle", () => {
  test("leaves behind what its tenants had, from where it goes on counting, and who has failed", async () => {
    const gateway = await aPoolThatLearned();
    await gateway.upstream.answerWith(refusal(500, "no"));
    for (let count = 0; count < 4; count += 1) {
      // oxlint-disable-next-line no-await-in-loop -- one after the other
      await gateway.ask();
    }
    const before = await gateway.poolStatus();
    const healthOf = ({ replicas }: typeof before) => replicas.map(({ health }) => health);
    expect(healthOf(before)).not.toEqual(["healthy", "healthy"]);
    await expect.poll(() => keptText(gateway), PATIENCE).toContain(gateway.tenantId);
    const after = await nextLife(gateway);
    expect(healthOf(after)).toEqual(healthOf(before));
    expect(after).toMatchObject({ offered: before.offered, leases: 0, queued: 0 });
    expect(after.tenants).toEqual(before.tenants);
    expect(after.tenants).toMatchObject([{ tenantId: gateway.tenantId, counts: { good: 5 } }]);
  });

  test("leaves its replicas behind as gone, until they say that they are there", async () => {
    const gateway = await aGateway();
    await gateway.upstream.answerWith(wholeAnswer("a"));
    await gateway.ask();
    await becomesIdle(gateway);
    await expect.poll(() => keptText(gateway), PATIENCE).toContain(gateway.tenantId);
    const { replicas } = await runInDurableObject(stubOf(gateway), async (_object, state) => {
      // Its connection does not outlive it.
      vi.spyOn(state, "getWebSockets").mockReturnValue([]);
      return new PoolObject(state, env).status(gateway.poolId);
    });
    expect(replicas.map(({ state }) => state)).toEqual(["disconnected"]);
  });

  test.each(["", "{", '{"format":0}', '{"format":1,"keptAtMs":1,"state":{}}'])(
    "begins anew where what is kept cannot be used: %j",
    async (text) => {
      const log = vi.spyOn(console, "error").mockImplementation(() => {});
      const gateway = await aPoolThatLearned();
      const status = await nextLife(gateway, (storage) => {
        const keptAtMs = Date.now();
        storage.kv.put("pool", text.replace('"keptAtMs":1', `"keptAtMs":${keptAtMs}`));
      });
      expect(status).toMatchObject({ offered: 0, tenants: [] });
      log.mockRestore();
    },
  );
});
