import { describe, expect, test } from "vitest";
import type { OverloadLadder } from "../../../src/tenants/overload-step.ts";
import type { Offer } from "../../../src/pool/offer.ts";
import type { Pool } from "../../../src/pool/pool.ts";
import { LeaseId, ModelId } from "../../../src/protocol/ids.ts";
import {
  aLivePool,
  anOffer,
  aReadyPool,
  firstTokenWithin,
  NO_GUARANTEE,
  only,
} from "../../support/pool-builders.ts";
import { aReport, replicaIdOf } from "../../support/replica-builders.ts";
import { aFullPool, anOfferOf, dispatched, leaseOf, nameOf, refused } from "./full-pool.ts";

const COMPLETED = { kind: "completed" } as const;
const PATIENT = { targets: firstTokenWithin(20_000) };

describe("waiting in the pool", () => {
  test("a request waits for a slot and is sent when one comes free", () => {
    const { pool, leaseId } = aFullPool();
    expect(dispatched(pool.offer(anOffer("r"), 10))).toEqual([]);
    const [sent] = only("dispatch", pool.settle(leaseId, COMPLETED, 110));
    expect(sent).toMatchObject({
      requestId: "r",
      dispatch: { queuedMs: 100, firstTokenBudgetMs: 900 },
    });
    pool.checkInvariants();
  });

  test("of one tenant the earliest deadline is served first, whoever came first", () => {
    const { pool, leaseId } = aFullPool();
    const short = { outputTokensMax: 5 };
    pool.offer(anOffer("patient", { ...short, targets: firstTokenWithin(5000) }), 10);
    pool.offer(anOffer("urgent", { ...short, targets: firstTokenWithin(2000) }), 20);
    expect(dispatched(pool.settle(leaseId, COMPLETED, 30))).toEqual(["urgent"]);
  });

  test("a newcomer does not overtake an earlier deadline that waits", () => {
    const pool = aReadyPool({ hello: { sequencesMax: 1 } });
    pool.report(replicaIdOf(0), aReport(2, { runningRequests: 1 }), 0);
    pool.offer(anOffer("urgent"), 10);
    // The slot is free as of this report, which the pool hears of together with the newcomer.
    const heard = pool.report(replicaIdOf(0), aReport(3), 20);
    const offered = pool.offer(anOffer("newcomer", { targets: firstTokenWithin(5000) }), 20);
    expect(dispatched(heard)).toEqual(["urgent"]);
    expect(dispatched(offered)).toEqual([]);
  });

  test("tenants take turns, however many requests one of them has", () => {
    const { pool, leaseId } = aFullPool({ first: { tenantId: anOfferOf("x", "x").tenantId } });
    for (const name of ["a1", "a2", "a3"]) pool.offer(anOfferOf("a", name, PATIENT), 1);
    pool.offer(anOfferOf("b", "b1", PATIENT), 2);
    const order: string[] = [];
    let last = leaseId;
    for (let nowMs = 10; nowMs < 50; nowMs += 10) {
      const effects = pool.settle(last, COMPLETED, nowMs);
      order.push(...dispatched(effects));
      last = leaseOf(effects);
    }
    expect(order).toHaveLength(4);
    expect(order.slice(0, 2)).toContain("b1");
  });

  test("a request that excludes the free replica does not block those behind it", () => {
    const pool = aReadyPool({ replicaCount: 2, hello: { sequencesMax: 1 } });
    pool.offer(anOffer("a"), 0);
    const [sentB] = only("dispatch", pool.offer(anOffer("b"), 0));
    const free = sentB?.dispatch.replicaId ?? replicaIdOf(9);
    const picky = { excludedReplicaIds: [free], targets: firstTokenWithin(500) };
    pool.offer(anOffer("picky", picky), 1);
    pool.offer(anOffer("easy"), 1);
    const settled = pool.settle(sentB?.leaseId ?? LeaseId.parse("none"), COMPLETED, 2);
    expect(dispatched(settled)).toEqual(["easy"]);
    expect(pool.status(2).queued).toBe(1);
  });

  test("a newcomer is tried though others wait whom the free replica cannot help", () => {
    for (const overload of [undefined, [{ kind: "reject" }] as const]) {
      const pool = aReadyPool({ replicaCount: 2, hello: { sequencesMax: 1 } });
      const [sentA] = only("dispatch", pool.offer(anOffer("a"), 0));
      const taken = sentA?.dispatch.replicaId ?? replicaIdOf(9);
      const free = [replicaIdOf(0), replicaIdOf(1)].filter((each) => each !== taken);
      pool.offer(anOffer("picky", { excludedReplicaIds: free }), 1);
      const newcomer = { ...PATIENT, ...(overload !== undefined && { overload }) };
      expect(dispatched(pool.offer(anOffer("newcomer", newcomer), 2))).toEqual(["newcomer"]);
      pool.checkInvariants();
    }
  });

  test("those who wait come before a newcomer that would not wait", () => {
    const { pool } = aFullPool({ pool: { limits: { leaseMs: 1_000 } } });
    pool.offer(anOffer("waits", PATIENT), 1);
    pool.report(replicaIdOf(0), aReport(2), 990);
    // The slot comes free with the lease's end, of which nobody has told the pool before this offer.
    const effects = pool.offer(anOffer("newcomer", { overload: [{ kind: "reject" }] }), 1_000);
    expect(dispatched(effects)).toEqual(["waits"]);
    expect(Object.keys(refused(effects))).toEqual(["newcomer"]);
  });

  test("excess that can be served only within the guarantee is, and charged so, once that covers it", () => {
    const short = { ...PATIENT, outputTokensMax: 5 };
    // A pool that has just begun serves only what is guaranteed.
    const pool = aReadyPool({ pool: { startedAtMs: 0 } });
    pool.report(replicaIdOf(0), aReport(2, { runningRequests: 4 }), 1);
    pool.offer(anOffer("early", { ...short, share: NO_GUARANTEE }), 2);
    // The latest offer tells which share the tenant has.
    pool.offer(anOffer("late", short), 2);
    const served = pool.report(replicaIdOf(0), aReport(3), 2);
    expect(dispatched(served)).toEqual(["late", "early"]);
    const leases = [...pool.state.leases.values()];
    expect(leases.map(({ account }) => account.isInProfile)).toEqual([true, true]);
    const [tenant] = pool.state.tenants.values();
    expect(tenant?.bucket.burst.spentMs).toBe(leases.reduce((sum, { costMs }) => sum + costMs, 0));
    pool.checkInvariants();
  });

  test("a request that is withdrawn leaves the queue and is told so", () => {
    const { pool, leaseId } = aFullPool();
    pool.offer(anOffer("r"), 1);
    expect(refused(pool.withdraw(nameOf("r"), 2))).toEqual({ r: "withdrawn" });
    expect(dispatched(pool.settle(leaseId, COMPLETED, 3))).toEqual([]);
    pool.checkInvariants();
  });

  test("withdrawing a request that does not wait does nothing", () => {
    const { pool } = aFullPool();
    expect(pool.withdraw(nameOf("first"), 1)).toEqual([]);
    expect(pool.withdraw(nameOf("stranger"), 1)).toEqual([]);
    expect(pool.status(1).leases).toBe(1);
  });
});

describe("the moment at which a request cannot be in time any more", () => {
  test("is when it is refused, not before, and a wake is asked for then", () => {
    const { pool } = aFullPool();
    const [wake] = only("wake", pool.offer(anOffer("r"), 10));
    const atMs = wake?.atMs ?? 0;
    // 16 tokens of template, a millisecond each, and a step of 10 ms on an idle replica, and a margin.
    expect(atMs).toBeLessThan(10 + 1000 - 26);
    expect(atMs).toBeGreaterThan(10 + 1000 - 3 * 26);
    expect(pool.wake(atMs - 1)).toEqual([wake]);
    expect(refused(pool.wake(atMs))).toEqual({ r: "deadline-passed" });
    pool.checkInvariants();
  });

  test("counts what was spent before the request came", () => {
    const { pool } = aFullPool();
    const [fresh] = only("wake", pool.offer(anOffer("fresh"), 10));
    const [spent] = only("wake", pool.offer(anOffer("spent", { elapsedMs: 400 }), 10));
    expect((fresh?.atMs ?? 0) - (spent?.atMs ?? 0)).toBe(400);
  });

  test("is later than was thought when a faster replica has come meanwhile", () => {
    const { pool } = aFullPool();
    const slow = { speedRatio: 4 };
    pool.report(replicaIdOf(0), aReport(2, slow), 1);
    const [wake] = only("wake", pool.offer(anOffer("r"), 10));
    const atMs = wake?.atMs ?? 0;
    pool.report(replicaIdOf(0), aReport(3), atMs - 1);
    expect(refused(pool.wake(atMs))).toEqual({});
    expect(pool.status(atMs).queued).toBe(1);
    pool.checkInvariants();
  });

  test("nobody is woken when nobody waits", () => {
    expect(only("wake", aReadyPool().offer(anOffer("r"), 0))).toEqual([]);
  });

  test("a request that is already late is refused, even by an idle pool", () => {
    const late = anOffer("r", { elapsedMs: 1000 });
    expect(refused(aReadyPool().offer(late, 1))).toEqual({ r: "infeasible" });
  });
});

/** A full pool in which two requests of each tenant may wait. */
function aPoolForTwo(queueMax: number): Pool {
  return aFullPool({ queueMax, pool: { limits: { tenantQueueMax: 2 } } }).pool;
}

describe("a full queue", () => {
  test("refuses the newcomer", () => {
    const { pool } = aFullPool({ queueMax: 2 });
    const short = { ...PATIENT, outputTokensMax: 5 };
    for (const name of ["a", "b"]) pool.offer(anOffer(name, short), 1);
    expect(refused(pool.offer(anOffer("c", short), 2))).toEqual({ c: "queue-full" });
    expect(pool.status(2).queued).toBe(2);
    pool.checkInvariants();
  });

  test("of none refuses whoever would have to wait", () => {
    const { pool } = aFullPool({ queueMax: 0 });
    expect(refused(pool.offer(anOffer("r"), 1))).toEqual({ r: "queue-full" });
  });

  test("makes excess give way to what is guaranteed, and not the other way round", () => {
    const { pool } = aFullPool({ queueMax: 2 });
    const short = { ...PATIENT, outputTokensMax: 5 };
    const excess = { ...short, share: NO_GUARANTEE };
    for (const name of ["e1", "e2"]) pool.offer(anOfferOf("excess", name, excess), 1);
    const first = pool.offer(anOffer("g1", short), 2);
    const second = pool.offer(anOffer("g2", short), 3);
    const gone = { ...refused(first), ...refused(second) };
    expect(gone).toEqual({ e1: "queue-full", e2: "queue-full" });
    expect(only("reject", first)[0]?.rejection.code).toBe("rate_limit_exceeded");
    const late = pool.offer(anOfferOf("excess", "e3", excess), 4);
    expect(refused(late)).toEqual({ e3: "queue-full" });
    expect(refused(pool.offer(anOffer("g3", short), 5))).toEqual({ g3: "queue-full" });
    pool.checkInvariants();
  });

  describe("of one tenant", () => {
    const SHORT = { ...PATIENT, outputTokensMax: 5 };
    const EXCESS = { ...SHORT, share: NO_GUARANTEE };

    test("refuses what more it sends within its guarantee, and others wait", () => {
      const pool = aPoolForTwo(10);
      for (const name of ["a1", "a2"]) pool.offer(anOfferOf("a", name, SHORT), 1);
      const [rejected] = only("reject", pool.offer(anOfferOf("a", "a3", SHORT), 2));
      expect(rejected?.rejection).toMatchObject({
        code: "server_is_overloaded",
        reason: "queue-full",
      });
      expect(refused(pool.offer(anOfferOf("b", "b1", EXCESS), 3))).toEqual({});
      expect(pool.status(3).queued).toBe(3);
      pool.checkInvariants();
    });

    test("makes its own excess give way to what it sends within its guarantee", () => {
      const pool = aPoolForTwo(10);
      for (const name of ["b1", "b2"]) pool.offer(anOfferOf("b", name, EXCESS), 1);
      pool.offer(anOfferOf("a", "excess", EXCESS), 1);
      pool.offer(anOfferOf("a", "a1", SHORT), 1);
      expect(refused(pool.offer(anOfferOf("a", "a2", SHORT), 2))).toEqual({ excess: "queue-full" });
      expect(pool.status(2).queued).toBe(4);
      pool.checkInvariants();
    });

    test("takes no place from others where the pool's is full as well", () => {
      const pool = aPoolForTwo(3);
      for (const name of ["a1", "a2"]) pool.offer(anOfferOf("a", name, SHORT), 1);
      pool.offer(anOfferOf("b", "b1", EXCESS), 1);
      expect(refused(pool.offer(anOfferOf("a", "a3", SHORT), 2))).toEqual({ a3: "queue-full" });
      expect(refused(pool.offer(anOfferOf("c", "c1", SHORT), 3))).toEqual({ b1: "queue-full" });
      pool.checkInvariants();
    });
  });

  test("that becomes shorter turns nobody away who waits already", () => {
    const { pool } = aFullPool();
    const short = { outputTokensMax: 5 };
    for (const name of ["a", "b", "c"]) pool.offer(anOffer(name, short), 1);
    expect(refused(pool.configure(aLivePool(1, { queueMax: 1 }), 2))).toEqual({});
    expect(pool.status(2).queued).toBe(3);
    const newcomer = pool.offer(anOfferOf("excess", "d", { share: NO_GUARANTEE }), 3);
    expect(refused(newcomer)).toEqual({ d: "queue-full" });
  });
});

const withLadder = (overload: OverloadLadder, change: Partial<Offer> = {}) =>
  anOffer("r", { overload, ...change });

describe("a tenant's overload ladder", () => {
  test("lets a request wait for a share of its target and no longer", () => {
    const { pool } = aFullPool();
    const offer = withLadder([{ kind: "queue", ratio: 0.5 }, { kind: "reject" }], {
      elapsedMs: 100,
    });
    expect(only("wake", pool.offer(offer, 10))).toMatchObject([{ atMs: 410 }]);
    expect(refused(pool.wake(409))).toEqual({});
    expect(refused(pool.wake(410))).toEqual({ r: "deadline-passed" });
  });

  test("refuses at once where it says nothing of waiting", () => {
    const { pool } = aFullPool();
    expect(refused(pool.offer(withLadder([]), 10))).toEqual({ r: "infeasible" });
  });

  test("cuts an answer short that would take too long, and says so", () => {
    const pool = aReadyPool();
    const targets = { e2e: { percentileRatio: 0.99, limitMs: 700 } };
    const long = { targets, outputTokensMax: 500 };
    const overload: OverloadLadder = [{ kind: "clamp", outputTokensMax: 8 }];
    expect(dispatched(pool.offer(anOffer("whole", { ...long, overload: [] }), 1))).toEqual([]);
    const [sent] = only("dispatch", pool.offer(withLadder(overload, long), 2));
    expect(sent?.dispatch.clampedOutputTokensMax).toBe(8);
    pool.checkInvariants();
  });

  test("cuts short only what it must", () => {
    const overload: OverloadLadder = [{ kind: "clamp", outputTokensMax: 8 }];
    const [sent] = only("dispatch", aReadyPool().offer(withLadder(overload), 2));
    expect(sent?.dispatch).not.toHaveProperty("clampedOutputTokensMax");
  });

  test("goes on with the step after each one that did not help", () => {
    const { pool, leaseId } = aFullPool();
    const overload: OverloadLadder = [
      { kind: "queue", ratio: 0.3 },
      { kind: "clamp", outputTokensMax: 8 },
      { kind: "queue", ratio: 0.8 },
      { kind: "fallback", modelId: ModelId.parse("smaller") },
    ];
    const [first] = only("wake", pool.offer(withLadder(overload), 0));
    expect(first?.atMs).toBe(300);
    const [second] = only("wake", pool.wake(300));
    expect(second?.atMs).toBe(800);
    pool.offer(anOffer("other", { overload }), 310);
    pool.wake(610);
    const [sent] = only("dispatch", pool.settle(leaseId, COMPLETED, 700));
    expect(sent).toMatchObject({
      requestId: "r",
      dispatch: { clampedOutputTokensMax: 8, queuedMs: 700 },
    });
    const [rejected] = only("reject", pool.wake(310 + 800));
    expect(rejected).toMatchObject({
      requestId: "other",
      rejection: { reason: "deadline-passed", fallbackModelId: "smaller" },
    });
    pool.checkInvariants();
  });

  test("charges an answer that was cut short for what is left of it", () => {
    const pool = aReadyPool();
    const targets = { e2e: { percentileRatio: 0.99, limitMs: 700 } };
    const overload: OverloadLadder = [{ kind: "clamp", outputTokensMax: 8 }];
    pool.offer(withLadder(overload, { targets }), 2);
    const [lease] = pool.state.leases.values();
    const [tenant] = pool.state.tenants.values();
    expect(lease?.account.isInProfile).toBe(true);
    expect(tenant?.bucket.burst.spentMs).toBe(lease?.costMs);
  });
});
