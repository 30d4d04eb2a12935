import { describe, expect, test } from "vitest";
import type { Offer, Outcome } from "../../../src/pool/offer.ts";
import type { Pool } from "../../../src/pool/pool.ts";
import { LeaseId } from "../../../src/protocol/ids.ts";
import {
  aLivePool,
  anOffer,
  aPool,
  aReadyPool,
  firstTokenWithin,
  only,
} from "../../support/pool-builders.ts";
import { aReport, replicaIdOf } from "../../support/replica-builders.ts";
import { leaseOf } from "./full-pool.ts";

const [OWN, OTHER, THIRD] = [replicaIdOf(0), replicaIdOf(1), replicaIdOf(2)];
const HOPE = { hasOther: true, isSilent: false };

/** Sends a request to the first replica and returns its lease. */
function sentTo(pool: Pool, name: string, nowMs: number, change: Partial<Offer> = {}): LeaseId {
  const excludedReplicaIds = [OTHER];
  return leaseOf(pool.offer(anOffer(name, { excludedReplicaIds, ...change }), nowMs));
}

describe("Pool.prospectsOf()", () => {
  test("another replica that has a slot is worth asking, unless it was tried before", () => {
    const pool = aReadyPool({ replicaCount: 2 });
    const leaseId = sentTo(pool, "own", 0);
    expect(pool.prospectsOf(leaseId, [], 1)).toEqual(HOPE);
    expect(pool.prospectsOf(leaseId, [OTHER], 1)).toEqual({ ...HOPE, hasOther: false });
  });

  test("nor is one that is full, or has not been heard of lately", () => {
    const pool = aReadyPool({ replicaCount: 2, hello: { sequencesMax: 1 } });
    const leaseId = sentTo(pool, "own", 1);
    pool.offer(anOffer("r", { excludedReplicaIds: [OWN] }), 1);
    expect(pool.prospectsOf(leaseId, [], 1)).toMatchObject({ hasOther: false });
    expect(pool.prospectsOf(leaseId, [], 5_000)).toEqual({ hasOther: false, isSilent: true });
  });

  test("a replica that is disconnected is silent, one that drains still works", () => {
    const pool = aReadyPool({ replicaCount: 2 });
    const leaseId = sentTo(pool, "own", 0);
    pool.report(OWN, aReport(2, { draining: true }), 1);
    expect(pool.prospectsOf(leaseId, [], 1)).toMatchObject({ isSilent: false });
    pool.disconnected(OWN, 2);
    expect(pool.prospectsOf(leaseId, [], 2)).toEqual({ hasOther: true, isSilent: true });
  });

  test("nobody knows of a lease that has ended", () => {
    const pool = aReadyPool({ replicaCount: 2 });
    expect(pool.prospectsOf(LeaseId.parse("ended"), [], 1)).toBeUndefined();
  });
});

const WHOLE: Partial<Offer> = { isStreamed: false, targets: firstTokenWithin(60_000) };
const DONE: Outcome = { kind: "completed", outputTokens: 20 };

/** Two servers that are not ours, begun at instant 0. */
function aPlainPool(): Pool {
  const pool = aPool();
  pool.configure({ ...aLivePool(2), engine: "openai" }, 0);
  return pool;
}

/** What is thought of a server that three requests have waited for until they left. */
function healthAfter(leftAtMs: number): unknown {
  const pool = aPlainPool();
  const leaseIds = [0, 1, 2].map((index) => sentTo(pool, `r${index}`, 0, WHOLE));
  for (const leaseId of leaseIds) pool.settle(leaseId, { kind: "client-gone" }, leftAtMs);
  return pool.status(leftAtMs).replicas[0]?.health;
}

describe("a server that never reports", () => {
  test("is silent when it has answered nobody for half a minute", () => {
    const pool = aPlainPool();
    const leaseId = sentTo(pool, "own", 0, WHOLE);
    expect(pool.prospectsOf(leaseId, [], 29_999)).toEqual(HOPE);
    expect(pool.prospectsOf(leaseId, [], 30_000)).toEqual({ ...HOPE, isSilent: true });
  });

  const answers: readonly (readonly [string, (pool: Pool, leaseId: LeaseId) => void])[] = [
    ["a whole answer", (pool, leaseId) => pool.settle(leaseId, DONE, 20_000)],
    ["a first token", (pool, leaseId) => pool.started(leaseId, 19_000, 20_000)],
    ["a refusal", (pool, leaseId) => pool.settle(leaseId, { kind: "upstream-refused" }, 20_000)],
  ];

  test.each(answers)("is not as long as somebody else got %s", (_, answer) => {
    const pool = aPlainPool();
    const waiting = sentTo(pool, "own", 0, WHOLE);
    answer(pool, sentTo(pool, "another", 1_000));
    expect(pool.prospectsOf(waiting, [], 49_999)).toEqual(HOPE);
    expect(pool.prospectsOf(waiting, [], 50_000)).toMatchObject({ isSilent: true });
  });

  test("is not when long answers are usual there", () => {
    const pool = aPlainPool();
    const long = { ...WHOLE, outputTokensMax: 2_000 };
    for (let index = 0; index < 40; index++) {
      const leaseId = sentTo(pool, `long-${index}`, 0, long);
      pool.settle(leaseId, { kind: "completed", outputTokens: 1_990 }, 1);
    }
    // Of some ten milliseconds a token.
    const leaseId = sentTo(pool, "own", 2, long);
    expect(pool.prospectsOf(leaseId, [], 45_000)).toEqual(HOPE);
    expect(pool.prospectsOf(leaseId, [], 100_000)).toMatchObject({ isSilent: true });
  });

  test("is not of a stream that has begun", () => {
    const pool = aPlainPool();
    const leaseId = sentTo(pool, "own", 0);
    pool.started(leaseId, 10, 10);
    expect(pool.prospectsOf(leaseId, [], 90_000)).toEqual(HOPE);
  });

  test("has failed whoever leaves it then, and not whoever leaves it sooner", () => {
    expect([healthAfter(29_000), healthAfter(30_000)]).toEqual(["healthy", "ejected"]);
  });

  test("is not tried again on a request that has failed before", () => {
    const pool = aPool();
    pool.configure({ ...aLivePool(3), engine: "openai" }, 0);
    const failed = [0, 1, 2].map((index) =>
      leaseOf(
        pool.offer(anOffer(`f${index}`, { ...WHOLE, excludedReplicaIds: [OTHER, THIRD] }), 0),
      ),
    );
    for (const leaseId of failed) pool.settle(leaseId, { kind: "upstream-failed" }, 1);
    expect(pool.status(5_001).replicas[0]?.health).toBe("probing");
    // It may find its way there all the same, as the best of two equals.
    const places = Array.from({ length: 8 }, (_, index) => {
      const again = anOffer(`a${index}`, { ...WHOLE, excludedReplicaIds: [OTHER], isRetry: true });
      const [sent] = only("dispatch", pool.offer(again, 5_001));
      return sent?.dispatch.replicaId;
    });
    expect(places[0]).toBe(THIRD);
  });

  test("is tried as soon as its time is over by whoever waits for it, though nothing else happens", () => {
    const pool = aPool({ startedAtMs: -60_000 });
    pool.configure({ ...aLivePool(2), engine: "openai" }, 0);
    for (let index = 0; index < 3; index++) {
      pool.settle(sentTo(pool, `f${index}`, 0, WHOLE), { kind: "upstream-failed" }, 1);
    }
    const effects = pool.offer(
      anOffer("waits", { ...WHOLE, excludedReplicaIds: [OTHER], isRetry: true }),
      2,
    );
    expect(only("dispatch", effects)).toEqual([]);
    const [wake] = only("wake", effects);
    expect(wake?.atMs).toBe(5_001);
    expect(only("dispatch", pool.wake(5_001))).toMatchObject([{ requestId: "waits" }]);
  });

  test("is left for one that is due to be tried again, which brings that back", () => {
    const pool = aPlainPool();
    const failed = [0, 1, 2].map((index) => sentTo(pool, `f${index}`, 0, WHOLE));
    for (const leaseId of failed) pool.settle(leaseId, { kind: "upstream-failed" }, 1);
    const health = (nowMs: number) => pool.status(nowMs).replicas.map((replica) => replica.health);
    expect(health(5_001)).toEqual(["probing", "healthy"]);
    // The other one hangs; what comes next finds out about the first.
    const probe = leaseOf(pool.offer(anOffer("probe", WHOLE), 5_001));
    pool.offer(anOffer("hangs", WHOLE), 5_002);
    pool.settle(probe, DONE, 5_300);
    expect(health(5_300)).toEqual(["healthy", "healthy"]);
  });
});
