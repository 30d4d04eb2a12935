import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, test, vi } from "vitest";
import { assert } from "../../src/base/assert.ts";
import { REPLICA_CLOSE_CODES, REPLICA_FRAME_BYTES_MAX } from "../../src/protocol/engine-api.ts";
import { PoolId, RequestId } from "../../src/protocol/ids.ts";
import { DIRECTORY_NAME } from "../../workers/directory-object.ts";
import { PoolObject } from "../../workers/pool-object.ts";
import { LINKS_MAX } from "../../workers/replica-links.ts";
import { anOffer, firstTokenWithin } from "../support/pool-builders.ts";
import { aHello, aReport } from "../support/replica-builders.ts";
import { advanceClock } from "./support/advance-clock.ts";
import {
  aPoolWithSlots,
  aPoolWithTwoReplicas,
  configurePool,
  dial,
  PATIENCE,
  URL_A,
  URL_B,
} from "./support/test-pool.ts";

/** Runs `call` in a context of its own, that of an object which can be made to crash. */
async function inAnotherContext(name: string, call: (crash: () => void) => Promise<void>) {
  await runInDurableObject(env.TENANTS.getByName(name), async (_object, state) => {
    await call(() => state.abort("the caller crashes"));
  });
}

/** Makes the stored configuration unreadable, as a torn write would. */
async function tearDirectory(): Promise<void> {
  await runInDurableObject(env.DIRECTORY.getByName(DIRECTORY_NAME), (_object, state) => {
    state.storage.sql.exec("UPDATE live_rows SET digest = 'torn'");
  });
}

describe("PoolObject.acquire()", () => {
  test("a request goes to a replica that has said hello and reported", async () => {
    const pool = await aPoolWithSlots(1);
    using acquired = await pool.acquire(anOffer("r"));
    expect(acquired).toMatchObject({
      kind: "dispatched",
      dispatch: { replicaId: URL_A, endpointUrl: URL_A },
    });
    expect(await pool.status()).toMatchObject({ leases: 1, queued: 0 });
  });

  test("of 200 requests at once, exactly as many are dispatched as there are slots", async () => {
    const pool = await aPoolWithSlots(10, { pool: { queueMax: 0 } });
    // However long it takes to ask so often, the replica's last word does not grow old meanwhile.
    advanceClock(0);
    const answers = await Promise.all(
      Array.from({ length: 200 }, (_, index) => pool.acquire(anOffer(`r${index}`))),
    );
    const kinds = answers.map((answer) =>
      answer.kind === "rejected" ? answer.rejection.reason : answer.kind,
    );
    expect(kinds.filter((kind) => kind === "dispatched")).toHaveLength(10);
    expect(kinds.filter((kind) => kind === "queue-full")).toHaveLength(190);
    expect(await pool.leases()).toBe(10);
  });

  test("a request waits for a slot and gets the next one", async () => {
    const pool = await aPoolWithSlots(1);
    const first = await pool.acquire(anOffer("first"));
    const second = pool.acquire(anOffer("second", { targets: firstTokenWithin(20_000) }));
    await expect.poll(async () => (await pool.status()).queued, PATIENCE).toBe(1);
    if (first.kind === "dispatched") await first.lease.settle({ kind: "completed" });
    expect((await second).kind).toBe("dispatched");
  });

  test("a request that waits is refused when it has become hopeless", async () => {
    const pool = await aPoolWithSlots(1);
    using first = await pool.acquire(anOffer("first"));
    expect(first.kind).toBe("dispatched");
    expect(await pool.acquire(anOffer("second", { targets: firstTokenWithin(200) }))).toMatchObject(
      {
        kind: "rejected",
        rejection: { reason: "deadline-passed" },
      },
    );
  });

  test("a withdrawn request is answered at once", async () => {
    const pool = await aPoolWithSlots(1);
    using first = await pool.acquire(anOffer("first"));
    expect(first.kind).toBe("dispatched");
    const waiting = pool.acquire(anOffer("second", { targets: firstTokenWithin(60_000) }));
    await expect.poll(async () => (await pool.status()).queued, PATIENCE).toBe(1);
    await pool.stub().withdraw(RequestId.parse("second"));
    expect(await waiting).toMatchObject({ rejection: { reason: "withdrawn" } });
  });

  test("a request that waits is not offered a second time", async () => {
    const pool = await aPoolWithSlots(1);
    using first = await pool.acquire(anOffer("first"));
    expect(first.kind).toBe("dispatched");
    const waiting = pool.acquire(anOffer("second", { targets: firstTokenWithin(60_000) }));
    await expect.poll(async () => (await pool.status()).queued, PATIENCE).toBe(1);
    await expect(pool.acquire(anOffer("second"))).rejects.toThrow(/offered again/);
    await pool.stub().withdraw(RequestId.parse("second"));
    expect((await waiting).kind).toBe("rejected");
  });

  test("a new object waits for its replicas to dial in", async () => {
    const pool = await configurePool();
    const waiting = pool.acquire(anOffer("r", { targets: firstTokenWithin(20_000) }));
    await pool.connect(URL_A);
    expect((await waiting).kind).toBe("dispatched");
  });

  test("a pool that is in no configuration has no replica", async () => {
    const pool = await configurePool();
    const poolId = PoolId.parse("elsewhere");
    const answer = await env.POOLS.getByName(poolId).acquire(poolId, anOffer("r"));
    expect(answer).toMatchObject({ kind: "rejected", rejection: { reason: "no-replica" } });
    expect((await pool.status()).offered).toBe(0);
  });

  test("a pool whose configuration cannot be read refuses with a retry", async () => {
    const pool = await configurePool();
    await tearDirectory();
    expect(await pool.acquire(anOffer("r"))).toMatchObject({
      kind: "rejected",
      rejection: { code: "server_is_overloaded", reason: "no-replica", retryAfterMs: 1000 },
    });
  });
});

describe("a lease", () => {
  test("comes back when it is settled, once", async () => {
    const pool = await aPoolWithSlots(2);
    const first = await pool.acquire(anOffer("first"));
    const second = await pool.acquire(anOffer("second"));
    if (first.kind !== "dispatched") throw new Error("The first request was refused");
    await first.lease.settle({ kind: "completed" });
    await first.lease.settle({ kind: "completed" });
    first.lease[Symbol.dispose]();
    expect(second.kind).toBe("dispatched");
    expect(await pool.leases()).toBe(1);
  });

  test("comes back when it is disposed of", async () => {
    const pool = await aPoolWithSlots(1);
    const acquired = await pool.acquire(anOffer("r"));
    if (acquired.kind === "dispatched") acquired.lease[Symbol.dispose]();
    await expect.poll(pool.leases, PATIENCE).toBe(0);
  });

  test("comes back when the answer that holds it is disposed of", async () => {
    const pool = await aPoolWithSlots(1);
    {
      using acquired = await pool.acquire(anOffer("r"));
      expect(acquired.kind).toBe("dispatched");
    }
    await expect.poll(pool.leases, PATIENCE).toBe(0);
  });

  test("stays while its holder's context lives, though the call that got it is over", async () => {
    const pool = await aPoolWithSlots(1);
    await inAnotherContext("holder-that-lives", async () => {
      await pool.acquire(anOffer("r"));
    });
    expect(await pool.leases()).toBe(1);
  });

  test("comes back when its holder crashes", async () => {
    const pool = await aPoolWithSlots(1);
    const holder = inAnotherContext("holder-that-crashes", async (crash) => {
      await pool.acquire(anOffer("r"));
      crash();
    });
    await expect(holder).rejects.toThrow(/crashes/);
    await expect.poll(pool.leases, PATIENCE).toBe(0);
    expect((await pool.status()).dispatched).toBe(1);
  });

  test("comes back when its holder had crashed before it was given", async () => {
    const pool = await aPoolWithSlots(1);
    const first = await pool.acquire(anOffer("first"));
    const holder = inAnotherContext("holder-that-crashes-waiting", async (crash) => {
      const waiting = pool.acquire(anOffer("second", { targets: firstTokenWithin(60_000) }));
      await expect.poll(async () => (await pool.status()).queued, PATIENCE).toBe(1);
      crash();
      await waiting;
    });
    await expect(holder).rejects.toThrow(/crashes/);
    if (first.kind === "dispatched") await first.lease.settle({ kind: "completed" });
    await expect.poll(async () => (await pool.status()).dispatched, PATIENCE).toBe(2);
    await expect.poll(pool.leases, PATIENCE).toBe(0);
  });
});

describe("a replica's connection", () => {
  test("is a WebSocket and nothing else", async () => {
    const pool = await configurePool();
    const address = `https://gateway.test/internal/pools/${pool.poolId}`;
    expect((await pool.stub().fetch(address)).status).toBe(426);
  });

  test("is refused for a pool whose name cannot be one", async () => {
    const pool = await configurePool();
    for (const name of ["", "%E0%A4%A", "x".repeat(65)]) {
      const response = await pool.stub().fetch(`https://gateway.test/internal/pools/${name}`, {
        headers: { upgrade: "websocket" },
      });
      expect(response.status).toBe(404);
    }
  });

  test.for([
    ["text that is no JSON", "{"],
    ["JSON that is no frame", JSON.stringify({ kind: "greeting" })],
    ["null", "null"],
    ["bytes", new ArrayBuffer(8)],
    ["a hello with a count below zero", JSON.stringify({ ...aHello(0), sequencesMax: -1 })],
    ["a frame that is too large", JSON.stringify(aHello(0)).padEnd(REPLICA_FRAME_BYTES_MAX + 1)],
  ] as const)("ends with %s", async ([, frame]) => {
    const pool = await configurePool();
    const replica = await dial(pool);
    replica.socket.send(frame);
    expect(await replica.closed).toBe(REPLICA_CLOSE_CODES.badFrame);
  });

  test("lives on with a report before the hello, which counts for nothing", async () => {
    const pool = await configurePool();
    const replica = await dial(pool);
    replica.send(aReport(5));
    await expect.poll(pool.firstState, PATIENCE).toBe("disconnected");
    replica.send(aHello(0));
    await expect.poll(pool.firstState, PATIENCE).toBe("silent");
    replica.send(aReport(6));
    await expect.poll(pool.firstState, PATIENCE).toBe("ready");
  });

  test("ends with a second hello, and its replica gets nothing more", async () => {
    const pool = await aPoolWithSlots(1);
    const replica = await dial(pool);
    replica.send(aHello(0));
    replica.send(aHello(0));
    expect(await replica.closed).toBe(REPLICA_CLOSE_CODES.badFrame);
    expect((await pool.status()).replicas).toMatchObject([{ state: "disconnected" }]);
  });

  test("ends when it speaks another version of the protocol", async () => {
    const replica = await dial(await configurePool());
    replica.send({ ...aHello(0), protocolVersion: 1 });
    expect(await replica.closed).toBe(REPLICA_CLOSE_CODES.protocolVersion);
  });

  test("ends when the replica is not in the configuration", async () => {
    const replica = await dial(await configurePool());
    replica.send({ ...aHello(0), endpointUrl: "http://127.0.0.1:6666" });
    expect(await replica.closed).toBe(REPLICA_CLOSE_CODES.unknownReplica);
  });

  test("is to be tried again when no configuration can be read", async () => {
    const pool = await configurePool();
    await tearDirectory();
    const replica = await dial(pool);
    replica.send(aHello(0));
    expect(await replica.closed).toBe(REPLICA_CLOSE_CODES.tryAgainLater);
  });

  test("is replaced when the same replica dials in again, and the new one counts", async () => {
    const pool = await configurePool();
    const old = await pool.connect(URL_A);
    await pool.untilReady();
    await pool.connect(URL_A);
    expect(await old.closed).toBe(REPLICA_CLOSE_CODES.replaced);
    await pool.untilReady();
    using acquired = await pool.acquire(anOffer("r"));
    expect(acquired.kind).toBe("dispatched");
  });

  test("takes its replica along when it is lost", async () => {
    const pool = await configurePool();
    const replica = await pool.connect(URL_A);
    await pool.untilReady();
    replica.close();
    await expect.poll(pool.firstState, PATIENCE).toBe("disconnected");
  });

  test("is answered when it closes, or its process would wait for it for ever", async () => {
    const pool = await configurePool();
    const replica = await pool.connect(URL_A);
    replica.close();
    // This runtime ends a connection after ten seconds that nobody answers; `workerd serve` that stops does not.
    const unanswered = scheduler.wait(5_000).then(() => "unanswered");
    expect(await Promise.race([replica.closed, unanswered])).not.toBe("unanswered");
  });

  test("may be of a replica that only the newest configuration has", async () => {
    const pool = await configurePool();
    expect((await pool.status()).replicas).toHaveLength(1);
    await pool.configure({ endpointUrls: [URL_A, URL_B] });
    advanceClock(1_500);
    const replica = await pool.connect(URL_B);
    await pool.untilReady();
    expect(replica.socket.readyState).toBe(WebSocket.OPEN);
  });

  // Hundreds of handshakes: seconds alone, and many where other tests have the cores.
  const MANY = { timeout: 120_000 };
  test(
    "finds no room beyond the bound until one that never said hello gives up its place",
    MANY,
    async () => {
      const pool = await configurePool();
      await Promise.all(Array.from({ length: LINKS_MAX }, () => dial(pool)));
      await expect(dial(pool)).rejects.toThrow(/503/);
      advanceClock(60_000);
      await expect(dial(pool)).resolves.toBeDefined();
    },
  );
});

describe("the configuration of a pool", () => {
  test("is followed: a removed replica is hung up on, and its lease stays until settled", async () => {
    const { pool, replicas } = await aPoolWithTwoReplicas();
    const acquired = await pool.acquire(anOffer("a"));
    assert(acquired.kind === "dispatched", "an idle pool takes a request");
    const { endpointUrl } = acquired.dispatch;
    const isFirst = endpointUrl === URL_A;
    await pool.configure({ endpointUrls: [isFirst ? URL_B : URL_A] });
    advanceClock(6_000);
    await pool.status();
    expect(await replicas[isFirst ? 0 : 1]?.closed).toBe(REPLICA_CLOSE_CODES.unknownReplica);
    const removed = (await pool.status()).replicas.find((each) => each.endpointUrl === endpointUrl);
    expect(removed).toMatchObject({ state: "removed", outstanding: 1 });
    await acquired.lease.settle({ kind: "completed" });
    expect((await pool.status()).replicas).toHaveLength(1);
  });

  test("stays in force while the Directory cannot be read", async () => {
    const logged = vi.spyOn(console, "error").mockImplementation(() => {});
    // An object of an earlier test may have its own last word meanwhile.
    const ofOthers = /"event":"pool-memory"/;
    const lines = () => logged.mock.calls.flat().filter((line) => !ofOthers.test(line));
    const { pool, replicas } = await aPoolWithTwoReplicas();
    await pool.configure({ endpointUrls: [URL_A] });
    await tearDirectory();
    advanceClock(6_000);
    await pool.status();
    await expect.poll(async () => lines().length, PATIENCE).toBe(1);
    for (const replica of replicas) replica.report();
    await pool.untilReady(2);
    using acquired = await pool.acquire(anOffer("r"));
    expect(acquired.kind).toBe("dispatched");
    // The clock stands still: so soon after a failure the Directory is left alone.
    expect(lines()).toEqual([expect.stringContaining("configuration-unread")]);
  });
});

describe("a new life of the object", () => {
  test("knows its replicas by their connections, and counts what still runs there", async () => {
    const pool = await configurePool();
    await pool.connect(URL_A, { hello: { sequencesMax: 4, queueMax: 0 } });
    await pool.untilReady();
    await runInDurableObject(pool.stub(), async (_before, state) => {
      // What the runtime does after an eviction: a new object over the same connections.
      const reborn = new PoolObject(state, env);
      expect((await reborn.status(pool.poolId)).replicas).toMatchObject([{ state: "silent" }]);
      const [socket] = state.getWebSockets();
      if (socket === undefined) throw new Error("The connection is gone");
      const report = aReport(1000, { runningRequests: 3 });
      await reborn.webSocketMessage(socket, JSON.stringify(report));
      expect((await reborn.status(pool.poolId)).replicas).toMatchObject([{ state: "ready" }]);

      const first = await reborn.acquire(pool.poolId, anOffer("first"));
      expect(first.kind).toBe("dispatched");
      const second = reborn.acquire(
        pool.poolId,
        anOffer("second", { targets: firstTokenWithin(100) }),
      );
      expect(await second).toMatchObject({ rejection: { reason: "deadline-passed" } });
    });
  });

  test("does not take a replaced connection for the replica", async () => {
    const pool = await configurePool();
    await dial(pool);
    await dial(pool);
    await runInDurableObject(pool.stub(), async (object, state) => {
      const [old, fresh] = state.getWebSockets();
      if (old === undefined || fresh === undefined) throw new Error("A connection is gone");
      await object.webSocketMessage(old, JSON.stringify(aHello(0)));
      await object.webSocketMessage(fresh, JSON.stringify(aHello(0)));
      // The other end has not answered the close yet, and a new life would find both.
      expect(old.deserializeAttachment()).not.toHaveProperty("hello");
      expect(fresh.deserializeAttachment()).toHaveProperty("hello");
    });
  });
});
