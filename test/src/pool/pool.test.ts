import { describe, expect, test } from "vitest";
import { POOL_LIMITS } from "../../../src/pool/pool-limits.ts";
import type { Pool, PoolOptions } from "../../../src/pool/pool.ts";
import { LeaseId } from "../../../src/protocol/ids.ts";
import { ANSWER_MS_MAX } from "../../../src/slo/answer-span.ts";
import {
  aLivePool,
  anOffer,
  aPool,
  aReadyPool,
  firstTokenWithin,
  NO_GUARANTEE,
  only,
} from "../../support/pool-builders.ts";
import { aHello, aReport, EPOCH, replicaIdOf, urlOf } from "../../support/replica-builders.ts";
import { aFullPool, anOfferOf, dispatched, leaseOf, refused } from "./full-pool.ts";
import { chainOfText } from "../../support/prompt-chains.ts";

const PATIENCE = { targets: firstTokenWithin(2 * POOL_LIMITS.leaseMs) };

/** A pool of two replicas and three leases on the first of them. */
function aPoolOfThree(pool?: Partial<PoolOptions>) {
  const ready = aReadyPool({ replicaCount: 2, ...(pool && { pool }) });
  const leaseIds = ["a", "b", "c"].map((name) =>
    leaseOf(ready.offer(anOffer(name, { excludedReplicaIds: [replicaIdOf(1)] }), 1)),
  );
  return { pool: ready, leaseIds };
}

const healthOf = (pool: Pool) => pool.status(10).replicas.map(({ health }) => health);

describe("Pool.offer()", () => {
  test("a request goes to an idle replica at once", () => {
    const [effect, ...rest] = aReadyPool().offer(anOffer("r", { elapsedMs: 100 }), 5);
    expect(rest).toEqual([]);
    expect(effect).toMatchObject({
      kind: "dispatch",
      requestId: "r",
      leaseId: `${EPOCH}.1`,
      dispatch: {
        replicaId: replicaIdOf(0),
        endpointUrl: urlOf(0),
        dispatch: `${EPOCH}.1`,
        queuedMs: 0,
        firstTokenBudgetMs: 900,
        isInProfile: true,
      },
    });
  });

  test("what is foreseen of a request holds its targets", () => {
    const targets = { ...firstTokenWithin(500), tpot: { percentileRatio: 0.99, limitMs: 50 } };
    const [sent] = only("dispatch", aReadyPool().offer(anOffer("r", { targets }), 5));
    // 16 tokens of template, a millisecond each, and a step of 10 ms.
    expect(sent?.dispatch.forecast.ttftMs).toBeGreaterThan(26);
    expect(sent?.dispatch.forecast.ttftMs).toBeLessThanOrEqual(500);
    expect(sent?.dispatch.forecast.tpotMs).toBeGreaterThan(10);
    expect(sent?.dispatch.forecast.tpotMs).toBeLessThanOrEqual(50);
  });

  test("a burst inside one heartbeat is spread, though only one replica looked idle", () => {
    const pool = aReadyPool({ replicaCount: 2, hello: { sequencesMax: 8 } });
    pool.report(replicaIdOf(1), aReport(2, { queuedUncachedTokens: 30 }), 0);
    const urls = Array.from({ length: 8 }, (_, index) => {
      const offer = anOffer(`r${index}`, { promptBytes: 700, targets: firstTokenWithin(10_000) });
      return only("dispatch", pool.offer(offer, 1))[0]?.dispatch.endpointUrl;
    });
    expect(urls.filter((url) => url === urlOf(0)).length).toBeGreaterThanOrEqual(3);
    expect(urls.filter((url) => url === urlOf(1)).length).toBeGreaterThanOrEqual(3);
  });

  test("a request is not sent to a replica that failed it before", () => {
    const pool = aReadyPool({ replicaCount: 2 });
    const offer = anOffer("r", { excludedReplicaIds: [replicaIdOf(0)] });
    expect(only("dispatch", pool.offer(offer, 0))[0]?.dispatch.replicaId).toBe(replicaIdOf(1));
  });

  test("a request that waits is not offered a second time", () => {
    const { pool } = aFullPool();
    pool.offer(anOffer("r"), 1);
    expect(() => pool.offer(anOffer("r"), 2)).toThrow(/offered again/);
    pool.checkInvariants();
  });

  test("a request may be offered again while its earlier lease is still to be settled", () => {
    const pool = aReadyPool({ replicaCount: 2 });
    const [first] = only("dispatch", pool.offer(anOffer("r"), 0));
    const failed = first?.dispatch.replicaId ?? replicaIdOf(9);
    const change = { excludedReplicaIds: [failed], isRetry: true };
    const [again] = only("dispatch", pool.offer(anOffer("r", change), 1));
    expect(again?.dispatch.replicaId).not.toBe(failed);
    pool.settle(first?.leaseId ?? LeaseId.parse("none"), { kind: "upstream-failed" }, 2);
    pool.checkInvariants();
    expect(pool.status(2).leases).toBe(1);
  });

  test("requests whose prompt is cached go where it is, but for what is tried out elsewhere", () => {
    const pool = aReadyPool({ replicaCount: 4 });
    const chain = chainOfText("prompt");
    const change = { promptBytes: 2000, chain, route: "prompt", targets: firstTokenWithin(10_000) };
    const placeOf = (name: string, nowMs: number) => {
      const [sent] = only("dispatch", pool.offer(anOffer(name, change), nowMs));
      if (sent === undefined) throw new Error("An idle pool takes it");
      pool.settle(sent.leaseId, { kind: "completed" }, nowMs);
      return sent.dispatch.replicaId;
    };
    const home = placeOf("first", 0);
    const places = Array.from({ length: 40 }, (_, index) => placeOf(`r${index}`, index));
    expect(places.filter((place) => place === home).length).toBeGreaterThan(30);
  });
});

describe("leases", () => {
  test("a settled lease gives its slot back once", () => {
    const { pool, leaseId } = aFullPool();
    pool.settle(leaseId, { kind: "completed" }, 1);
    expect(pool.settle(leaseId, { kind: "abandoned" }, 2)).toEqual([]);
    pool.checkInvariants();
    expect(dispatched(pool.offer(anOffer("r"), 3))).toEqual(["r"]);
    expect(pool.status(3).leases).toBe(1);
  });

  test("a lease that nobody settles expires, and its slot goes to whoever waits", () => {
    const limits = { firstTokenMsMax: 2 * POOL_LIMITS.leaseMs };
    const { pool } = aFullPool({ pool: { limits } });
    const nowMs = POOL_LIMITS.leaseMs - 1000;
    pool.report(replicaIdOf(0), aReport(2), nowMs);
    const [wake] = only("wake", pool.offer(anOffer("r", PATIENCE), nowMs)).slice(-1);
    expect(wake?.atMs).toBe(POOL_LIMITS.leaseMs);
    expect(dispatched(pool.wake(POOL_LIMITS.leaseMs))).toEqual(["r"]);
    pool.checkInvariants();
  });

  test("a lease is still held when the longest answer that is allowed ends", () => {
    const { pool } = aFullPool();
    pool.wake(ANSWER_MS_MAX);
    expect(pool.status(ANSWER_MS_MAX).leases).toBe(1);
  });

  test("at the bound of leases requests wait, though replicas have slots", () => {
    const pool = aReadyPool({ pool: { limits: { leasesMax: 1 } } });
    const leaseId = leaseOf(pool.offer(anOffer("a"), 0));
    expect(dispatched(pool.offer(anOffer("b"), 0))).toEqual([]);
    expect(dispatched(pool.settle(leaseId, { kind: "completed" }, 1))).toEqual(["b"]);
    pool.checkInvariants();
  });

  test("only the first news of a first token counts", () => {
    const { pool, leaseId } = aFullPool();
    pool.started(leaseId, 30, 40);
    const { calibration } = pool.state;
    const learned = structuredClone(calibration);
    expect(pool.started(leaseId, 9_000, 9_100)).toEqual([]);
    expect(calibration).toEqual(learned);
  });

  test("news of a lease that was never given change nothing", () => {
    const { pool } = aFullPool();
    const stranger = LeaseId.parse("stranger");
    expect(pool.started(stranger, 30, 40)).toEqual([]);
    expect(pool.settle(stranger, { kind: "completed" }, 50)).toEqual([]);
    pool.checkInvariants();
  });
});

describe("Pool.stalled()", () => {
  test("a replica on which several requests stall is ejected, and keeps those that run there", () => {
    const { pool, leaseIds } = aPoolOfThree();
    for (const [index, leaseId] of leaseIds.entries()) pool.stalled(leaseId, 2 + index);
    expect(healthOf(pool)).toEqual(["ejected", "healthy"]);
    const effects = pool.offer(anOffer("next"), 10);
    expect(only("dispatch", effects)[0]?.dispatch.replicaId).toBe(replicaIdOf(1));
    expect(pool.status(10)).toMatchObject({ leases: 4 });
    pool.checkInvariants();
  });

  test("one request that stalls time and again proves nothing about the replica", () => {
    const { pool, leaseIds } = aPoolOfThree();
    const [leaseId = LeaseId.parse("none")] = leaseIds;
    for (let nowMs = 2; nowMs < 10; nowMs += 1) pool.stalled(leaseId, nowMs);
    expect(healthOf(pool)).toEqual(["suspect", "healthy"]);
  });

  test("nor do leases that have ended, or whose replica's process is another one by now", () => {
    const ended = aPoolOfThree();
    for (const leaseId of ended.leaseIds) {
      ended.pool.settle(leaseId, { kind: "client-gone" }, 2);
      expect(ended.pool.stalled(leaseId, 3)).toEqual([]);
    }
    const lost = aPoolOfThree();
    lost.pool.connected(aHello(0, { instanceId: "another life" }), 2);
    for (const leaseId of lost.leaseIds) lost.pool.stalled(leaseId, 3);
    expect([healthOf(ended.pool)[0], healthOf(lost.pool)[0]]).toEqual(["healthy", "healthy"]);
  });

  test("nothing is ejected where ejection is switched off", () => {
    const { pool, leaseIds } = aPoolOfThree({ mechanisms: { ejection: false } });
    for (const leaseId of leaseIds) pool.stalled(leaseId, 2);
    expect(healthOf(pool)).toEqual(["healthy", "healthy"]);
  });
});

describe("the bounds of a pool", () => {
  test("its own ceiling holds whatever queue the configuration asks for", () => {
    const pool = aPool({ limits: { queueMax: 3 } });
    pool.configure(aLivePool(1, { queueMax: 1_000_000 }), 0);
    expect(pool.status(0).queueMax).toBe(3);
  });

  test("replicas beyond its bound are not used", () => {
    const pool = aReadyPool({ replicaCount: 2, pool: { limits: { replicasMax: 2 } } });
    pool.configure(aLivePool(5), 1);
    expect(pool.status(1).replicas).toHaveLength(2);
    expect(pool.replicaAt(urlOf(4))).toBeUndefined();
  });

  test("tenants without requests here are forgotten, the longest unheard of first", () => {
    const pool = aReadyPool({ pool: { limits: { tenantsMax: 2 } } });
    for (const tenant of ["a", "b", "c"]) {
      const effects = pool.offer(anOfferOf(tenant, `of-${tenant}`), 1);
      pool.settle(leaseOf(effects), { kind: "completed" }, 2);
      pool.checkInvariants();
    }
    expect([...pool.state.tenants.keys()]).toEqual(["b", "c"]);
  });

  test("tenants whose requests are here are not forgotten until those have left", () => {
    const pool = aReadyPool({ pool: { limits: { tenantsMax: 1 } } });
    const leases = ["a", "b", "c"].map((tenant) =>
      leaseOf(pool.offer(anOfferOf(tenant, `of-${tenant}`), 1)),
    );
    expect(pool.state.tenants.size).toBe(3);
    for (const leaseId of leases) {
      pool.settle(leaseId, { kind: "completed" }, 2);
      pool.checkInvariants();
    }
    expect([...pool.state.tenants.keys()]).toEqual(["c"]);
  });

  test("what was remembered of a replica's displacements goes with the replica", () => {
    const { pool, leaseId } = aFullPool({ first: { share: NO_GUARANTEE } });
    const displaced = only("displace", pool.offer(anOfferOf("guaranteed", "r"), 1));
    expect(displaced).toHaveLength(1);
    pool.settle(leaseId, { kind: "displaced" }, 2);
    expect(pool.state.displacement.lastAtMs.size).toBe(1);
    pool.settle(LeaseId.parse(`${EPOCH}.2`), { kind: "completed" }, 3);
    pool.configure(aLivePool(0), 4);
    expect(pool.state.displacement.lastAtMs.size).toBe(0);
  });
});

describe("Pool.status()", () => {
  test("the counts of a pool add up, and its replicas tell what they last reported", () => {
    const { pool } = aFullPool({ queueMax: 1 });
    const short = { outputTokensMax: 10 };
    pool.offer(anOffer("waits", short), 1);
    expect(refused(pool.offer(anOffer("refused", short), 1))).toEqual({ refused: "queue-full" });
    pool.report(replicaIdOf(0), aReport(2, { runningRequests: 1, usedBlocks: 5 }), 2);
    expect(pool.status(2)).toMatchObject({
      queued: 1,
      queueMax: 1,
      leases: 1,
      offered: 3,
      dispatched: 1,
      rejected: 1,
      displaced: 0,
      replicas: [
        {
          replicaId: replicaIdOf(0),
          endpointUrl: urlOf(0),
          state: "ready",
          health: "healthy",
          outstanding: 1,
          running: 1,
          queued: 0,
          usedBlocks: 5,
          blockCount: 1024,
          prefillTokensPerSecond: 1000,
          stepMs: 10,
          speedRatio: 1,
        },
      ],
      tenants: [
        { tenantId: "tenant-a", counts: { offered: 3, admitted: 1, rejectedInProfile: 1 } },
      ],
    });
  });

  test("a pool of one replica has one GPU-ms a millisecond, one of three alike has three", () => {
    for (const replicaCount of [1, 3]) {
      const pool = aReadyPool({ replicaCount });
      pool.offer(anOffer("r"), 1);
      expect(pool.status(1).capacityMsPerMs).toBeCloseTo(replicaCount);
    }
  });
});
