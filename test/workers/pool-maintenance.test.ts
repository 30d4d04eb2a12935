import { runInDurableObject } from "cloudflare:test";
import { describe, expect, test } from "vitest";
import { REPLICA_CLOSE_CODES } from "../../src/protocol/engine-api.ts";
import { ReplicaId } from "../../src/protocol/ids.ts";
import { anOffer } from "../support/pool-builders.ts";
import { advanceClock } from "./support/advance-clock.ts";
import {
  aPoolWithTwoReplicas,
  configurePool,
  dial,
  PATIENCE,
  URL_A,
  URL_B,
} from "./support/test-pool.ts";

describe("an operator's word", () => {
  test("a closed pool stays closed in its next life, until it is opened", async () => {
    const pool = await configurePool();
    await pool.stub().close(pool.poolId, true);
    await expect(
      runInDurableObject(pool.stub(), (_, state) => state.abort("the next life begins")),
    ).rejects.toThrow("the next life begins");
    expect(await pool.status()).toMatchObject({ isClosed: true, offered: 0 });
    expect(await pool.acquire(anOffer("r"))).toMatchObject({
      kind: "rejected",
      rejection: { reason: "closed" },
    });
    await pool.stub().close(pool.poolId, false);
    await pool.connect(URL_A);
    await pool.untilReady();
    expect((await pool.acquire(anOffer("r"))).kind).toBe("dispatched");
  });

  test("a closed pool lets its replicas go once nothing runs there, and has none dial in until it is opened", async () => {
    const pool = await configurePool();
    const replica = await pool.connect(URL_A);
    await pool.untilReady();
    const acquired = await pool.acquire(anOffer("r"));
    if (acquired.kind !== "dispatched") throw new Error("The replica is ready");
    await pool.stub().close(pool.poolId, true);
    expect(await pool.firstState()).toBe("ready");

    await acquired.lease.settle({ kind: "completed" });
    expect(await replica.closed).toBe(REPLICA_CLOSE_CODES.poolClosed);
    await expect(dial(pool)).rejects.toThrow("answered 423");
    await pool.stub().close(pool.poolId, false);
    await pool.connect(URL_A);
    await pool.untilReady();
  });

  test("a pool without work lets its replicas go when it is closed", async () => {
    const pool = await configurePool();
    const replica = await pool.connect(URL_A);
    const silent = await dial(pool);
    await pool.stub().close(pool.poolId, true);
    expect(await replica.closed).toBe(REPLICA_CLOSE_CODES.poolClosed);
    expect(await silent.closed).toBe(REPLICA_CLOSE_CODES.poolClosed);
  });

  test("a drained replica gets nothing new, in the pool's next life as well, until it is used again", async () => {
    const { pool } = await aPoolWithTwoReplicas();
    const running = await pool.acquire(anOffer("first"));
    expect(await pool.stub().drain(pool.poolId, ReplicaId.parse(URL_A), true)).toBe(true);
    const used = new Set<string>();
    for (const name of ["a", "b", "c", "d"]) {
      // oxlint-disable-next-line no-await-in-loop -- each sees the one before
      const acquired = await pool.acquire(anOffer(name));
      if (acquired.kind === "dispatched") used.add(acquired.dispatch.replicaId);
    }
    expect([...used]).toEqual([URL_B]);
    expect(running.kind).toBe("dispatched");
    const statesOf = async () => (await pool.status()).replicas.map(({ state }) => state);
    expect(await statesOf()).toEqual(["draining", "ready"]);

    await expect(
      runInDurableObject(pool.stub(), (_, state) => state.abort("the next life begins")),
    ).rejects.toThrow("the next life begins");
    await pool.connect(URL_A);
    await expect.poll(async () => (await statesOf())[0], PATIENCE).toBe("draining");
    await pool.stub().drain(pool.poolId, ReplicaId.parse(URL_A), false);
    expect((await statesOf())[0]).toBe("ready");
  });

  test("a replica that left the configuration comes back undrained, and an unknown one is not drained", async () => {
    const pool = await configurePool({ endpointUrls: [URL_A, URL_B] });
    await pool.stub().drain(pool.poolId, ReplicaId.parse(URL_B), true);
    await pool.configure({ endpointUrls: [URL_A] });
    advanceClock(2_000);
    expect(await pool.stub().drain(pool.poolId, ReplicaId.parse(URL_B), true)).toBe(false);
    await pool.configure({ endpointUrls: [URL_A, URL_B] });
    advanceClock(2_000);
    expect(await pool.stub().drain(pool.poolId, ReplicaId.parse(URL_A), false)).toBe(true);
    expect((await pool.status()).replicas.map(({ state }) => state)).toEqual([
      "disconnected",
      "disconnected",
    ]);
    await pool.connect(URL_B);
    await pool.untilReady();
  });
});
