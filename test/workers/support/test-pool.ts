import { env } from "cloudflare:workers";
import { expect, onTestFinished } from "vitest";
import type { Offer } from "../../../src/pool/offer.ts";
import type { PoolStatus } from "../../../src/pool/pool-status.ts";
import { PoolId } from "../../../src/protocol/ids.ts";
import type { ConfigurationWish } from "./configuration.ts";
import { aLiveConfiguration, applyConfiguration } from "./configuration.ts";
import type { ConnectedReplica, ReplicaWish } from "./replica.ts";
import { connectReplica } from "./replica.ts";

export const URL_A = "http://127.0.0.1:9101";
export const URL_B = "http://127.0.0.1:9102";

/** For polls: long enough for a machine that is busy. */
export const PATIENCE = { timeout: 10_000 };

let poolCount = 0;

/** A pool that no other test has used, with its replicas in the live configuration. */
export async function configurePool(wish: ConfigurationWish = {}) {
  poolCount += 1;
  const poolId = PoolId.parse(`pool-${poolCount}`);
  const configure = (next: ConfigurationWish) =>
    applyConfiguration(
      aLiveConfiguration({
        endpointUrls: [URL_A],
        ...next,
        pool: { ...next.pool, poolId },
        model: { poolId },
      }),
    );
  await configure(wish);
  const stub = () => env.POOLS.getByName(poolId);
  return {
    poolId,
    configure,
    stub,
    // A promise of RPC makes a further call of every property that is looked up on it.
    acquire: async (offer: Offer) => await stub().acquire(poolId, offer),
    status: async (): Promise<PoolStatus> => await stub().status(poolId),
    connect: (url: string, replica: ReplicaWish = {}) =>
      connectReplica(url, { ...replica, poolId }),
    leases: async () => (await stub().status(poolId)).leases,
    firstState: async () => (await stub().status(poolId)).replicas[0]?.state,
    untilReady: (count = 1) =>
      expect
        .poll(async () => {
          const { replicas } = await stub().status(poolId);
          return replicas.filter(({ state }) => state === "ready").length;
        }, PATIENCE)
        .toBe(count),
  };
}

type TestPool = Awaited<ReturnType<typeof configurePool>>;

/** A pool with one replica that can run so many requests and queues none. */
export async function aPoolWithSlots(
  slots: number,
  wish: ConfigurationWish = {},
): Promise<TestPool> {
  const pool = await configurePool(wish);
  await pool.connect(URL_A, { hello: { sequencesMax: slots, queueMax: 0 } });
  await pool.untilReady();
  return pool;
}

/** A pool with two replicas, both ready, and their connections. */
export async function aPoolWithTwoReplicas(): Promise<{
  pool: TestPool;
  replicas: ConnectedReplica[];
}> {
  const pool = await configurePool({ endpointUrls: [URL_A, URL_B] });
  const replicas = [await pool.connect(URL_A), await pool.connect(URL_B)];
  await pool.untilReady(2);
  return { pool, replicas };
}

/** Opens a replica's connection without saying anything on it. */
export async function dial(pool: TestPool) {
  const response = await pool.stub().fetch(`https://gateway.test/internal/pools/${pool.poolId}`, {
    headers: { upgrade: "websocket" },
  });
  const socket = response.webSocket;
  if (socket === null) throw new Error(`The pool answered ${response.status}, not an upgrade`);
  const closed = new Promise<number>((resolve) => {
    socket.addEventListener("close", (event) => resolve(event.code));
  });
  socket.accept();
  onTestFinished(() => socket.close());
  return { socket, closed, send: (frame: unknown) => socket.send(JSON.stringify(frame)) };
}
