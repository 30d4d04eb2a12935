import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, test, vi } from "vitest";
import type { Env } from "../../workers/env.ts";
import { TenantObject } from "../../workers/tenant-object.ts";
import { WAIT } from "./support/gateway.ts";
import { aRow, skipTime } from "./support/limits.ts";

const [queue, database] = boundForTests();

function boundForTests() {
  const { TEST_QUEUE, TEST_DATABASE } = env;
  if (TEST_QUEUE === undefined || TEST_DATABASE === undefined) throw new Error("Nothing is bound");
  return [TEST_QUEUE, TEST_DATABASE] as const;
}

const PRICE = {
  inputPicosPerToken: 1_000_000,
  cachedInputPicosPerToken: 1_000_000,
  outputPicosPerToken: 4_000_000,
};

beforeEach(async () => {
  await database.exec("CREATE TABLE IF NOT EXISTS received (body TEXT)");
  await database.exec("DELETE FROM received");
  await database.exec("DROP TABLE IF EXISTS sluice_usage");
});

/** A life of a tenant's object, over the storage of whatever lives were before it. */
async function inLife<Result>(
  name: string,
  bound: Partial<Env>,
  live: (tenant: TenantObject, state: DurableObjectState) => Promise<Result>,
): Promise<Result> {
  return runInDurableObject(env.TENANTS.getByName(name), (_object, state) =>
    live(new TenantObject(state, { ...env, ...bound }), state),
  );
}

async function settleSome(tenant: TenantObject, count: number): Promise<string[]> {
  const rows = Array.from({ length: count }, () =>
    aRow({ keyName: "prod", pricing: { price: PRICE, outputTokensMax: 9 } }),
  );
  const ending = { kind: "counted", promptTokens: 10, outputTokens: 5, cachedTokens: 2 } as const;
  await Promise.all(rows.map((row) => tenant.settle(row, ending)));
  return rows.map(({ requestId }) => requestId);
}

/** Wakes an object as its alarm does, which is then no longer set. */
async function wake(tenant: TenantObject, { storage }: DurableObjectState): Promise<void> {
  await storage.deleteAlarm();
  await tenant.alarm();
}

/** What whoever reads the queue was given, in the order of their numbers. */
async function received() {
  const { results } = await database
    .prepare("SELECT body FROM received ORDER BY body ->> 'number'")
    .all<{ body: string }>();
  return results.map(({ body }): Record<string, unknown> => JSON.parse(body));
}

async function stored() {
  const { results } = await database.prepare("SELECT * FROM sluice_usage ORDER BY number").all();
  return results;
}

/** A queue that refuses, as an overloaded one does, while `isDown`; what it takes goes to the real one. */
function unreliable() {
  const line = { isDown: false, sends: 0 };
  const refuse = async (): Promise<never> => {
    line.sends += 1;
    throw new Error("Queue sendBatch failed: Too Many Requests");
  };
  const send: typeof queue.sendBatch = async (...args) => {
    line.sends += 1;
    return queue.sendBatch(...args);
  };
  const failing: Pick<typeof queue, "sendBatch"> = {
    sendBatch: (...args) => (line.isDown ? refuse() : send(...args)),
  };
  return {
    line,
    queue: new Proxy(queue, {
      get: (target, name) => Reflect.get(name in failing ? failing : target, name),
    }),
  };
}

/** The lines of the log about the export. */
function exportLog() {
  const spy = vi.spyOn(console, "error").mockImplementation(() => {});
  return () => spy.mock.calls.map(([line]): Record<string, unknown> => JSON.parse(String(line)));
}

describe("counted requests", () => {
  test("go to the bound queue and database by an alarm, each once, in order and without a text", async () => {
    const name = crypto.randomUUID();
    const ids = await inLife(
      name,
      { USAGE_QUEUE: queue, USAGE_DB: database },
      async (tenant, state) => {
        expect(await state.storage.getAlarm()).toBeNull();
        const settled = await settleSome(tenant, 250);
        const alarmAtMs = (await state.storage.getAlarm()) ?? 0;
        expect(alarmAtMs - Date.now()).toBeGreaterThan(0);
        expect(alarmAtMs - Date.now()).toBeLessThanOrEqual(2_000);
        await wake(tenant, state);
        // Once more, with nothing to send.
        await wake(tenant, state);
        return settled;
      },
    );
    await vi.waitFor(async () => expect(await received()).toHaveLength(250), WAIT);
    const lines = await received();
    expect(lines.map(({ request_id }) => request_id)).toEqual(ids);
    expect(lines[0]).toEqual({
      tenant: name,
      shard: 0,
      number: 1,
      request_id: ids[0],
      key: "prod",
      model: "m",
      began_at: expect.stringMatching(/Z$/),
      settled_at: expect.stringMatching(/Z$/),
      how: "counted",
      prompt_tokens: 10,
      completion_tokens: 5,
      cached_tokens: 2,
      estimated: false,
      spend: "0.00003",
    });
    expect(await stored()).toEqual(lines.map((line) => ({ ...line, estimated: 0 })));
  });

  test("are sent nowhere, and wake nobody, where nothing is bound", async () => {
    const name = crypto.randomUUID();
    await inLife(name, {}, async (tenant, state) => {
      await settleSome(tenant, 3);
      expect(await state.storage.getAlarm()).toBeNull();
      await wake(tenant, state);
      expect(await state.storage.getAlarm()).toBeNull();
    });
    expect(await received()).toEqual([]);
  });

  test("from before a sink was bound go there as well", async () => {
    const name = crypto.randomUUID();
    const before = await inLife(name, {}, (tenant) => settleSome(tenant, 3));
    const bound = { USAGE_DB: database };
    const after = await inLife(name, bound, async (tenant, state) => {
      const settled = await settleSome(tenant, 1);
      await wake(tenant, state);
      return settled;
    });
    expect((await stored()).map(({ request_id }) => request_id)).toEqual([...before, ...after]);
  });

  test("go on in the next life where this one has ended, and none is left out", async () => {
    const name = crypto.randomUUID();
    const bound = { USAGE_QUEUE: queue, USAGE_DB: database };
    await inLife(name, bound, async (tenant, state) => {
      await settleSome(tenant, 2);
      await wake(tenant, state);
      await settleSome(tenant, 3);
    });
    const { sends, stops } = await inLife(name, bound, async (tenant, state) => {
      const batches = vi.spyOn(database, "batch");
      await wake(tenant, state);
      return { sends: batches.mock.calls.length, stops: await state.storage.getAlarm() };
    });
    expect([sends, stops]).toEqual([1, null]);
    expect((await stored()).map(({ number }) => number)).toEqual([1, 2, 3, 4, 5]);
    await vi.waitFor(async () => expect(await received()).toHaveLength(5), WAIT);
  });

  test("that are told to a database again stay as they are", async () => {
    const name = crypto.randomUUID();
    await inLife(name, { USAGE_DB: database }, async (tenant, state) => {
      await settleSome(tenant, 3);
      await wake(tenant, state);
      // As if what was sent had not been written down before the object died.
      await state.storage.put("usage-sent:database", 1);
    });
    await database.exec("UPDATE sluice_usage SET key = 'first'");
    await inLife(name, { USAGE_DB: database }, async (tenant, state) => {
      await settleSome(tenant, 1);
      await wake(tenant, state);
    });
    expect((await stored()).map(({ number, key }) => [number, key])).toEqual([
      [1, "first"],
      [2, "first"],
      [3, "first"],
      [4, "prod"],
    ]);
  });

  test("wait for a queue that refuses, with growing delays, and hold no other sink up", async () => {
    const name = crypto.randomUUID();
    const told = exportLog();
    const { line, queue: failing } = unreliable();
    const bound = { USAGE_QUEUE: failing, USAGE_DB: database };
    await inLife(name, bound, async (tenant, state) => {
      line.isDown = true;
      await settleSome(tenant, 3);
      await wake(tenant, state);
      expect(await stored()).toHaveLength(3);
      expect(told()).toEqual([
        {
          level: "error",
          event: "usage-export-failed",
          tenantId: name,
          shard: 0,
          sink: "queue",
          waiting: 3,
          failures: 1,
          details: "Error: Queue sendBatch failed: Too Many Requests",
        },
      ]);
      const firstDelayMs = ((await state.storage.getAlarm()) ?? 0) - Date.now();
      expect(firstDelayMs).toBeLessThanOrEqual(1_000);
      // Woken for something else meanwhile, it does not try.
      await wake(tenant, state);
      expect(line.sends).toBe(1);
      skipTime(1_000);
      await wake(tenant, state);
      expect(line.sends).toBe(2);
      const secondDelayMs = ((await state.storage.getAlarm()) ?? 0) - Date.now();
      expect(secondDelayMs).toBeGreaterThan(1_000);
      expect(secondDelayMs).toBeLessThanOrEqual(2_000);
      line.isDown = false;
      vi.mocked(Date.now).mockRestore();
      skipTime(3_000);
      await wake(tenant, state);
      expect(await state.storage.getAlarm()).toBeNull();
    });
    await vi.waitFor(async () => expect(await received()).toHaveLength(3), WAIT);
  });

  test("are told as lost where the ledger had to give them up", async () => {
    const name = crypto.randomUUID();
    const told = exportLog();
    const bound = { USAGE_DB: database };
    await inLife(name, {}, (tenant) => settleSome(tenant, 5));
    await inLife(name, {}, async (_tenant, { storage }) => {
      await storage.delete(["usage-settled:0000000000000001", "usage-settled:0000000000000002"]);
    });
    await inLife(name, bound, async (tenant, state) => {
      await settleSome(tenant, 1);
      await wake(tenant, state);
    });
    expect((await stored()).map(({ number }) => number)).toEqual([3, 4, 5, 6]);
    expect(told()).toEqual([
      {
        level: "error",
        event: "usage-export-dropped",
        tenantId: name,
        shard: 0,
        sink: "database",
        count: 2,
      },
    ]);
  });
});
