import { describe, expect, test } from "vitest";
import type { Offer, Rejection } from "../../../src/pool/offer.ts";
import { ModelId } from "../../../src/protocol/ids.ts";
import type { Pool } from "../../../src/pool/pool.ts";
import {
  aLivePool,
  anOffer,
  aPool,
  aReadyPool,
  firstTokenWithin,
  NO_GUARANTEE,
  only,
} from "../../support/pool-builders.ts";
import { aHello, aReport, replicaIdOf } from "../../support/replica-builders.ts";
import { aFullPool, anOfferOf, nameOf, refused } from "./full-pool.ts";

const IMPATIENT = [{ kind: "reject" }] as const;

function rejectionOf(pool: Pool, offer: Offer, nowMs: number): Rejection {
  const [rejected] = only("reject", pool.offer(offer, nowMs));
  if (rejected === undefined) throw new Error("The request was not refused");
  return rejected.rejection;
}

const statusAfterRefusal = (change: Partial<Offer>) => {
  const { pool } = aFullPool();
  const targets = firstTokenWithin(2_000);
  pool.offer(anOffer("r", { overload: IMPATIENT, targets, ...change }), 1);
  return pool.status(1);
};

describe("a refusal", () => {
  test("says us to what is guaranteed and you to what is beyond", () => {
    const { pool } = aFullPool();
    const within = anOfferOf("a", "within", { overload: IMPATIENT });
    expect(rejectionOf(pool, within, 1)).toMatchObject({
      code: "server_is_overloaded",
      reason: "infeasible",
    });
    const beyond = anOfferOf("b", "beyond", { overload: IMPATIENT, share: NO_GUARANTEE });
    expect(rejectionOf(pool, beyond, 1)).toMatchObject({
      code: "rate_limit_exceeded",
      reason: "out-of-profile",
    });
  });

  test("says when to come back: from a second to a minute", () => {
    const { pool } = aFullPool();
    for (let index = 0; index < 50; index += 1) {
      const share = index % 2 === 0 ? NO_GUARANTEE : anOffer("x").share;
      const offer = anOfferOf(`t${index % 3}`, `r${index}`, { overload: IMPATIENT, share });
      const { retryAfterMs } = rejectionOf(pool, offer, 1);
      expect(retryAfterMs).toBeGreaterThanOrEqual(1_000);
      expect(retryAfterMs).toBeLessThanOrEqual(60_000);
    }
  });

  test("tells the wait that was foreseen on the replica that had most room", () => {
    const pool = aReadyPool();
    pool.report(replicaIdOf(0), aReport(2, { queuedUncachedTokens: 5000 }), 0);
    const { predictedWaitMs, reason } = rejectionOf(pool, anOffer("r", { overload: [] }), 1);
    expect(reason).toBe("infeasible");
    expect(predictedWaitMs).toBeGreaterThan(5_000);
  });

  test("of a client that left gives back what was taken from the guarantee", () => {
    const { pool } = aFullPool();
    const tenant = () => [...pool.state.tenants.values()][0];
    const before = tenant()?.bucket.burst.spentMs ?? 0;
    expect(before).toBeGreaterThan(0);
    pool.offer(anOffer("waits", { outputTokensMax: 5 }), 0);
    expect(tenant()?.bucket.burst.spentMs).toBeGreaterThan(before);
    pool.withdraw(nameOf("waits"), 0);
    expect(tenant()?.bucket.burst.spentMs).toBe(before);
  });

  test("is counted once, and a withdrawal not at all", () => {
    const { pool } = aFullPool();
    const short = { outputTokensMax: 5 };
    pool.offer(anOffer("r", { ...short, overload: IMPATIENT }), 1);
    pool.offer(anOffer("waits", short), 1);
    pool.withdraw(nameOf("waits"), 2);
    expect(pool.status(3).tenants).toMatchObject([
      { counts: { offered: 3, rejectedInProfile: 1, rejectedOutOfProfile: 0 } },
    ]);
  });

  test("of a request that was admitted before is a miss, not a rejection", () => {
    const { pool } = aFullPool();
    pool.offer(anOffer("r", { overload: IMPATIENT, isRetry: true }), 1);
    expect(pool.status(3).tenants).toMatchObject([
      { counts: { offered: 1, missed: 1, missedBy: { failed: 1 }, rejectedInProfile: 0 } },
    ]);
  });

  test("that sends a request on to another model is none: the tenant wants that instead", () => {
    const { pool } = aFullPool();
    const overload = [{ kind: "fallback", modelId: ModelId.parse("other") }] as const;
    const { fallbackModelId } = rejectionOf(pool, anOffer("r", { overload }), 1);
    expect(fallbackModelId).toBe("other");
    rejectionOf(pool, anOffer("again", { overload, isRetry: true }), 2);
    expect(pool.status(3).tenants).toMatchObject([
      { counts: { missed: 0, rejectedInProfile: 0, rejectedOutOfProfile: 0 } },
    ]);
    pool.checkInvariants();
  });

  test("of a wish that is tighter than the promise breaks none, and holds nobody back", () => {
    const kept = aFullPool().pool.status(1).holdRatio;
    const promise = statusAfterRefusal({});
    expect(promise.tenants).toMatchObject([{ counts: { rejectedInProfile: 1 } }]);
    expect(promise.holdRatio).toBeLessThan(kept);
    const wish = statusAfterRefusal({ promised: firstTokenWithin(10_000) });
    expect(wish.tenants).toMatchObject([{ counts: { rejectedInProfile: 0 } }]);
    expect(wish.holdRatio).toBe(kept);
  });

  test("a client that left is promised no instant to come back at", () => {
    const { pool } = aFullPool();
    pool.offer(anOffer("waits"), 1);
    const [withdrawn] = only("reject", pool.withdraw(nameOf("waits"), 2));
    expect(withdrawn?.rejection.retryAfterMs).toBeUndefined();
    expect(pool.state.retryAfter.promised.entries).toEqual([]);
  });
});

describe("a prompt that is too long for its target", () => {
  // 16 tokens of template and 984 of text, a millisecond each, and one step of 10 ms.
  const promptBytes = 3444;
  const long = { promptBytes, targets: firstTokenWithin(1009) };

  test("is refused for good, however busy the pool is, with what an idle one would take", () => {
    const pool = aReadyPool();
    pool.report(replicaIdOf(0), aReport(2, { queuedUncachedTokens: 5000 }), 0);
    expect(rejectionOf(pool, anOffer("r", long), 1)).toEqual({
      code: "slo_unattainable",
      reason: "unattainable",
      retryAfterMs: undefined,
      predictedWaitMs: 1010,
      promptTokens: 1000,
    });
  });

  test("is refused for good whatever its tenant's ladder begins with", () => {
    for (const overload of [IMPATIENT, [{ kind: "clamp", outputTokensMax: 4 }] as const]) {
      const offer = anOffer("r", { ...long, overload });
      expect(rejectionOf(aReadyPool(), offer, 1).reason).toBe("unattainable");
    }
  });

  test("may be tried again when the target leaves just enough", () => {
    const enough = { promptBytes, targets: firstTokenWithin(1010), overload: IMPATIENT };
    expect(refused(aReadyPool().offer(anOffer("r", enough), 1))).toEqual({ r: "infeasible" });
  });

  test("may be tried again if only its time was spent before it came", () => {
    const spent = { promptBytes, targets: firstTokenWithin(1010), elapsedMs: 110 };
    expect(refused(aReadyPool().offer(anOffer("r", spent), 1))).toEqual({ r: "infeasible" });
  });

  test("may be tried again while a replica that could do it drains", () => {
    const pool = aReadyPool({ replicaCount: 2 });
    pool.report(replicaIdOf(1), aReport(2, { speedRatio: 0.5, draining: true }), 0);
    expect(refused(pool.offer(anOffer("r", long), 1))).toEqual({ r: "infeasible" });
  });

  test("may be tried again while a replica has yet to be heard of, and not once it has left", () => {
    const pool = aReadyPool();
    pool.configure(aLivePool(2), 0);
    expect(refused(pool.offer(anOffer("early", long), 1))).toEqual({ early: "infeasible" });
    pool.configure(aLivePool(1), 2);
    expect(refused(pool.offer(anOffer("late", long), 3))).toEqual({ late: "unattainable" });
  });

  test("is refused for good as well when it had to wait for its replica to dial in", () => {
    const pool = aPool();
    pool.configure(aLivePool(1), 0);
    expect(refused(pool.offer(anOffer("r", long), 1_500))).toEqual({});
    pool.connected(aHello(0), 1_600);
    pool.report(replicaIdOf(0), aReport(1), 1_610);
    const [wake] = only("wake", pool.wake(1_610));
    expect(refused(pool.wake(wake?.atMs ?? 0))).toEqual({ r: "unattainable" });
  });
});
