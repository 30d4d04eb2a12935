import { describe, expect, test } from "vitest";
import type { Offer } from "../../../src/pool/offer.ts";
import type { Pool } from "../../../src/pool/pool.ts";
import {
  anOffer,
  aReadyPool,
  firstTokenWithin,
  NO_GUARANTEE,
  only,
} from "../../support/pool-builders.ts";
import { aReport, replicaIdOf } from "../../support/replica-builders.ts";
import { aFullPool, anOfferOf, dispatched, leaseOf, refused } from "./full-pool.ts";

const EXCESS = { share: NO_GUARANTEE } as const;
const guaranteed = (name: string, change: Partial<Offer> = {}) =>
  anOfferOf("guaranteed", name, {
    targets: firstTokenWithin(3_000),
    outputTokensMax: 5,
    ...change,
  });
const displaced = (pool: Pool, offer: Offer, nowMs: number) =>
  only("displace", pool.offer(offer, nowMs)).map(({ requestId }) => String(requestId));

describe("displacement", () => {
  test("what is guaranteed takes the place of excess that has not begun", () => {
    const { pool, leaseId } = aFullPool({ first: EXCESS });
    expect(only("displace", pool.offer(guaranteed("r"), 5))).toEqual([
      { kind: "displace", requestId: "first", leaseId },
    ]);
    expect(dispatched(pool.settle(leaseId, { kind: "displaced" }, 20))).toEqual(["r"]);
    expect(pool.status(20).displaced).toBe(1);
    pool.checkInvariants();
  });

  test("nobody gives way who is guaranteed something, has begun, or does not stream", () => {
    const begun = aFullPool({ first: EXCESS });
    begun.pool.started(begun.leaseId, 30, 40);
    expect(displaced(begun.pool, guaranteed("r"), 50)).toEqual([]);
    const whole = aFullPool({ first: { ...EXCESS, isStreamed: false } });
    expect(displaced(whole.pool, guaranteed("r"), 50)).toEqual([]);
    expect(displaced(aFullPool().pool, guaranteed("r"), 50)).toEqual([]);
  });

  test("excess makes nobody give way", () => {
    const { pool } = aFullPool({ first: EXCESS });
    expect(displaced(pool, anOfferOf("other", "r", EXCESS), 5)).toEqual([]);
  });

  test("nobody gives way to a request that is refused all the same", () => {
    const { pool } = aFullPool({ first: EXCESS });
    const effects = pool.offer(guaranteed("r", { overload: [{ kind: "reject" }] }), 5);
    expect(refused(effects)).toEqual({ r: "infeasible" });
    expect(only("displace", effects)).toEqual([]);
  });

  test("nobody gives way where that does not help", () => {
    const pool = aReadyPool({ hello: { sequencesMax: 2 } });
    pool.report(replicaIdOf(0), aReport(2, { queuedUncachedTokens: 900 }), 0);
    pool.offer(anOffer("excess", { ...EXCESS, targets: firstTokenWithin(20_000) }), 1);
    const hurried = guaranteed("r", { targets: firstTokenWithin(900) });
    expect(displaced(pool, hurried, 2)).toEqual([]);
  });

  test("the newest gives way first", () => {
    const pool = aReadyPool({ hello: { sequencesMax: 2 } });
    for (const name of ["older", "newer"]) pool.offer(anOffer(name, { ...EXCESS }), 1);
    expect(displaced(pool, guaranteed("r"), 2)).toEqual(["newer"]);
  });

  test("a replica gives one up and then none for a tenth of a second", () => {
    const pool = aReadyPool({ hello: { sequencesMax: 2 } });
    for (const name of ["older", "newer"]) pool.offer(anOffer(name, { ...EXCESS }), 1);
    expect(displaced(pool, guaranteed("a"), 2)).toEqual(["newer"]);
    expect(displaced(pool, guaranteed("b"), 101)).toEqual([]);
    expect(only("displace", pool.wake(102))).toMatchObject([{ requestId: "older" }]);
    pool.checkInvariants();
  });

  test("nobody is displaced twice", () => {
    const { pool, leaseId } = aFullPool({ first: EXCESS });
    pool.offer(guaranteed("a"), 5);
    const next = pool.settle(leaseId, { kind: "displaced" }, 10);
    pool.settle(leaseOf(next), { kind: "completed" }, 1_000);
    const again = anOffer("first", { ...EXCESS, isRetry: true });
    expect(dispatched(pool.offer(again, 1_001))).toEqual(["first"]);
    expect(displaced(pool, guaranteed("b"), 1_500)).toEqual([]);
  });

  test("a slot that was lost with its replica's process is nothing to give up", () => {
    const { pool } = aFullPool({ first: EXCESS });
    const [hello] = [...pool.state.replicas.values()].map((replica) => replica.hello);
    if (hello === undefined) throw new Error("The replica has said hello");
    pool.connected({ ...hello, instanceId: "life-2" }, 2);
    pool.report(replicaIdOf(0), aReport(1, { runningRequests: 1 }), 3);
    expect(displaced(pool, guaranteed("r"), 4)).toEqual([]);
  });
});

describe("a dispatch", () => {
  test("is counted once for a request, whatever became of it before", () => {
    const pool = aReadyPool({ replicaCount: 2 });
    const first = leaseOf(pool.offer(anOffer("r"), 1));
    pool.settle(first, { kind: "upstream-failed" }, 2);
    pool.offer(anOffer("r", { isRetry: true }), 3);
    expect(pool.status(4).tenants).toMatchObject([{ counts: { offered: 1, admitted: 1 } }]);
  });

  test("takes its cost from the guarantee; what has not begun gets it back, what ran what it ran", () => {
    const pool = aReadyPool();
    const spentMs = () => [...pool.state.tenants.values()][0]?.bucket.burst.spentMs ?? 0;
    const leaseId = leaseOf(pool.offer(anOffer("gone"), 1));
    const claimedMs = spentMs();
    expect(claimedMs).toBeGreaterThan(0);
    pool.settle(leaseId, { kind: "client-gone" }, 1);
    expect(spentMs()).toBe(0);
    const usage = { promptTokens: 16, outputTokens: 5_000 };
    pool.settle(leaseOf(pool.offer(anOffer("long"), 1)), { kind: "completed", ...usage }, 1);
    expect(spentMs()).toBeGreaterThan(claimedMs);
  });
});
