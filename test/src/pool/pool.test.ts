import { describe, expect, test } from "vitest";
import { POOL_LIMITS } from "../../../src/pool/pool-limits.ts";
import { LeaseId, RequestId } from "../../../src/protocol/ids.ts";
import { REPORT_AGE_MS_MAX } from "../../../src/replicas/replica.ts";
import {
  aHello,
  aLivePool,
  anOffer,
  aPool,
  aReadyPool,
  aReport,
  EPOCH,
  only,
  replicaIdOf,
  urlOf,
} from "../../support/pool-builders.ts";

const AFTER_RELEARNING = POOL_LIMITS.relearnMs;

/** A pool at instant 0 with one sequence, taken by request `first`; returns the lease too. */
function aFullPool(configuration: { readonly queueMax?: number } = {}) {
  const pool = aReadyPool({ hello: { sequencesMax: 1 }, configuration });
  const [first] = only("dispatch", pool.offer(anOffer("first"), 0));
  if (first === undefined) throw new Error("The first request was not dispatched");
  return { pool, leaseId: first.leaseId };
}

describe("Pool.offer()", () => {
  test("a request goes to an idle replica at once", () => {
    const [effect, ...rest] = aReadyPool().offer(anOffer("r"), 5);
    expect(rest).toEqual([]);
    expect(effect).toMatchObject({
      kind: "dispatch",
      requestId: "r",
      dispatch: {
        replicaId: replicaIdOf(0),
        endpointUrl: urlOf(0),
        dispatch: `${EPOCH}.1`,
        queuedMs: 0,
        firstTokenBudgetMs: 1000,
      },
    });
  });

  test("a burst inside one heartbeat is spread, though only one replica looked idle", () => {
    const pool = aReadyPool({ replicaCount: 2, hello: { sequencesMax: 8 } });
    pool.report(replicaIdOf(1), aReport(2, { queuedUncachedTokens: 30 }), 0);
    const urls = Array.from({ length: 8 }, (_, index) => {
      const effects = pool.offer(anOffer(`r${index}`, { promptBytes: 700 }), 1);
      return only("dispatch", effects)[0]?.dispatch.endpointUrl;
    });
    expect(urls.filter((url) => url === urlOf(0))).toHaveLength(4);
    expect(urls.filter((url) => url === urlOf(1))).toHaveLength(4);
  });

  test("a hopeless request is refused at once and told when it would not be", () => {
    const pool = aReadyPool();
    pool.report(replicaIdOf(0), aReport(2, { queuedUncachedTokens: 5000 }), 0);
    const effects = pool.offer(anOffer("r"), 1);
    expect(effects).toEqual([
      {
        kind: "reject",
        requestId: "r",
        rejection: {
          code: "server_is_overloaded",
          reason: "infeasible",
          predictedWaitMs: 5026,
          retryAfterMs: 4026,
          promptTokens: 16,
        },
      },
    ]);
  });

  test("a request that is already late is refused, even by an idle pool", () => {
    const effects = aReadyPool().offer(anOffer("r", { firstTokenBudgetMs: 0 }), 1);
    expect(only("reject", effects)[0]?.rejection.reason).toBe("infeasible");
  });

  test("a request is not sent to a replica that failed it before", () => {
    const pool = aReadyPool({ replicaCount: 2 });
    const offer = anOffer("r", { excludedReplicaIds: [replicaIdOf(0)] });
    expect(only("dispatch", pool.offer(offer, 0))[0]?.dispatch.replicaId).toBe(replicaIdOf(1));
  });

  test("a request is refused when every replica failed it before", () => {
    const offer = anOffer("r", { excludedReplicaIds: [replicaIdOf(0)] });
    const [rejected] = only("reject", aReadyPool().offer(offer, 0));
    expect(rejected?.rejection).toMatchObject({ reason: "no-replica", retryAfterMs: 1000 });
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
    const again = pool.offer(anOffer("r", { excludedReplicaIds: [failed] }), 1);
    expect(only("dispatch", again)[0]?.dispatch.replicaId).not.toBe(failed);
    pool.settle(first?.leaseId ?? LeaseId.parse("none"), { kind: "upstream-failed" }, 2);
    pool.checkInvariants();
    expect(pool.status(2).leases).toBe(1);
  });

  test("a prompt counts for what the pool has learned of the ones before it", () => {
    const pool = aReadyPool();
    const promptBytes = 1400;
    const patience = { promptBytes, firstTokenBudgetMs: 60_000 };
    for (let index = 0; index < 50; index += 1) {
      const [sent] = only("dispatch", pool.offer(anOffer(`r${index}`, patience), index));
      const outcome = { kind: "completed", promptTokens: 1400 } as const;
      pool.settle(sent?.leaseId ?? LeaseId.parse("none"), outcome, index);
    }
    const [rejected] = only("reject", pool.offer(anOffer("r", { promptBytes }), 99));
    expect(rejected?.rejection.reason).toBe("infeasible");
    expect(rejected?.rejection.predictedWaitMs).toBeGreaterThan(1400);
    expect(rejected?.rejection.predictedWaitMs).toBeLessThan(1600);
  });
});

describe("a prompt that is too long for its target", () => {
  // 16 tokens of template and 984 of text, a millisecond each, and one step of 10 ms.
  const long = { promptBytes: 3444, firstTokenTargetMs: 1009, firstTokenBudgetMs: 1009 };

  test("is refused for good, however busy the pool is, with what an idle one would take", () => {
    const pool = aReadyPool();
    pool.report(replicaIdOf(0), aReport(2, { queuedUncachedTokens: 5000 }), 0);
    expect(pool.offer(anOffer("r", long), 1)).toEqual([
      {
        kind: "reject",
        requestId: "r",
        rejection: {
          code: "slo_unattainable",
          reason: "unattainable",
          retryAfterMs: undefined,
          predictedWaitMs: 1010,
          promptTokens: 1000,
        },
      },
    ]);
  });

  test("is served when the target leaves just enough", () => {
    const enough = { ...long, firstTokenTargetMs: 1010, firstTokenBudgetMs: 1010 };
    expect(only("dispatch", aReadyPool().offer(anOffer("r", enough), 1))).toHaveLength(1);
  });

  test("may be tried again if only its budget was spent before it came", () => {
    const spent = { ...long, firstTokenTargetMs: 1010, firstTokenBudgetMs: 900 };
    const [rejected] = only("reject", aReadyPool().offer(anOffer("r", spent), 1));
    expect(rejected?.rejection).toMatchObject({ reason: "infeasible", retryAfterMs: 1000 });
  });

  test.each([
    ["drains", aReport(2, { prefillTokensPerSecond: 2000, draining: true })],
    ["has not measured its speed", aReport(2, { prefillTokensPerSecond: 0 })],
  ])("may be tried again while a replica that could do it %s", (_, report) => {
    const pool = aReadyPool({ replicaCount: 2 });
    pool.report(replicaIdOf(1), report, 0);
    const [rejected] = only("reject", pool.offer(anOffer("r", long), 1));
    expect(rejected?.rejection.reason).toBe("infeasible");
  });

  test("may be tried again while a replica has yet to be heard of, and not once it has left", () => {
    const pool = aReadyPool();
    pool.configure(aLivePool(2), 0);
    const [early] = only("reject", pool.offer(anOffer("early", long), 1));
    expect(early?.rejection.reason).toBe("infeasible");
    pool.configure(aLivePool(1), 2);
    const [late] = only("reject", pool.offer(anOffer("late", long), 3));
    expect(late?.rejection.reason).toBe("unattainable");
  });

  test("is refused for good as well when it had to wait for its replica to dial in", () => {
    const pool = aPool();
    pool.configure(aLivePool(1), 0);
    expect(only("reject", pool.offer(anOffer("r", long), 10))).toEqual([]);
    pool.connected(aHello(0), 500);
    pool.report(replicaIdOf(0), aReport(1), 510);
    const [wake] = only("wake", pool.wake(510));
    const [rejected] = only("reject", pool.wake(wake?.atMs ?? 0));
    expect(rejected?.rejection.reason).toBe("unattainable");
  });
});

describe("waiting in the pool", () => {
  test("a request waits for a slot and is sent when one comes free", () => {
    const { pool, leaseId } = aFullPool();
    expect(only("dispatch", pool.offer(anOffer("r"), 10))).toEqual([]);
    const [sent] = only("dispatch", pool.settle(leaseId, { kind: "completed" }, 110));
    expect(sent).toMatchObject({
      requestId: "r",
      dispatch: { queuedMs: 100, firstTokenBudgetMs: 900 },
    });
    pool.checkInvariants();
  });

  test("the earliest deadline is served first, whoever came first", () => {
    const { pool, leaseId } = aFullPool();
    pool.offer(anOffer("patient", { firstTokenBudgetMs: 5000 }), 10);
    pool.offer(anOffer("urgent", { firstTokenBudgetMs: 2000 }), 20);
    const [sent] = only("dispatch", pool.settle(leaseId, { kind: "completed" }, 30));
    expect(sent?.requestId).toBe("urgent");
  });

  test("a newcomer does not overtake an earlier deadline that waits", () => {
    const pool = aReadyPool({ hello: { sequencesMax: 1 } });
    pool.report(replicaIdOf(0), aReport(2, { runningRequests: 1 }), 0);
    pool.offer(anOffer("urgent"), 10);
    // The slot is free as of this report, which the pool hears of together with the newcomer.
    const heard = pool.report(replicaIdOf(0), aReport(3), 20);
    const offered = pool.offer(anOffer("newcomer", { firstTokenBudgetMs: 5000 }), 20);
    expect(only("dispatch", heard).map(({ requestId }) => String(requestId))).toEqual(["urgent"]);
    expect(only("dispatch", offered)).toEqual([]);
  });

  test("a request that excludes the free replica does not block those behind it", () => {
    const pool = aReadyPool({ replicaCount: 2, hello: { sequencesMax: 1 } });
    pool.offer(anOffer("a"), 0);
    const [sentB] = only("dispatch", pool.offer(anOffer("b"), 0));
    const free = sentB?.dispatch.replicaId ?? replicaIdOf(9);
    pool.offer(anOffer("picky", { excludedReplicaIds: [free], firstTokenBudgetMs: 500 }), 1);
    pool.offer(anOffer("easy"), 1);
    const settled = pool.settle(sentB?.leaseId ?? LeaseId.parse("none"), { kind: "completed" }, 2);
    expect(only("dispatch", settled).map(({ requestId }) => String(requestId))).toEqual(["easy"]);
    expect(pool.status(2).queued).toBe(1);
  });

  test("a wake is asked for at the moment at which the request becomes hopeless", () => {
    const { pool } = aFullPool();
    // 16 tokens of template for it and for `first`, a millisecond each, and one step of 10 ms.
    expect(only("wake", pool.offer(anOffer("r"), 10))).toEqual([
      { kind: "wake", atMs: 10 + 1000 - 42 + 1 },
    ]);
  });

  test("a request that has become hopeless is refused when woken, not before", () => {
    const { pool } = aFullPool();
    const [wake] = only("wake", pool.offer(anOffer("r"), 10)).slice(-1);
    const atMs = wake?.atMs ?? 0;
    expect(only("reject", pool.wake(atMs - 1))).toEqual([]);
    expect(only("reject", pool.wake(atMs))[0]?.rejection).toMatchObject({
      code: "server_is_overloaded",
      reason: "deadline-passed",
    });
    pool.checkInvariants();
  });

  test("a wake that comes too early asks for another one", () => {
    const { pool } = aFullPool();
    const [wake] = only("wake", pool.offer(anOffer("r"), 10)).slice(-1);
    expect(pool.wake((wake?.atMs ?? 0) - 1)).toEqual([wake]);
  });

  test("nobody is woken when nobody waits", () => {
    expect(only("wake", aReadyPool().offer(anOffer("r"), 0))).toEqual([]);
  });

  test("a full queue refuses the newcomer, who learns how fast the queue moves", () => {
    const { pool, leaseId } = aFullPool({ queueMax: 2 });
    const patience = { firstTokenBudgetMs: 60_000 };
    pool.offer(anOffer("a", patience), 0);
    pool.report(replicaIdOf(0), aReport(2), 4000);
    const [next] = only("dispatch", pool.settle(leaseId, { kind: "completed" }, 4000));
    expect(next?.requestId).toBe("a");
    for (const name of ["b", "c"]) pool.offer(anOffer(name, patience), 4000);
    const [full] = only("reject", pool.offer(anOffer("d", patience), 4000));
    expect(full).toMatchObject({ requestId: "d", rejection: { reason: "queue-full" } });
    expect(full?.rejection.retryAfterMs).toBe(8000);
    expect(pool.status(4000).queued).toBe(2);
    pool.checkInvariants();
  });

  test("the wait for a sequence does not count as holding one", () => {
    const { pool, leaseId } = aFullPool({ queueMax: 1 });
    const patience = { firstTokenBudgetMs: 60_000 };
    pool.offer(anOffer("a", patience), 0);
    pool.report(replicaIdOf(0), aReport(2), 9000);
    pool.settle(leaseId, { kind: "completed", firstTokenAfterMs: 5000 }, 9000);
    pool.offer(anOffer("b", patience), 9000);
    const [full] = only("reject", pool.offer(anOffer("c", patience), 9000));
    expect(full?.rejection.retryAfterMs).toBe(4000);
  });

  test("a queue of none refuses whoever would have to wait", () => {
    const { pool } = aFullPool({ queueMax: 0 });
    expect(only("reject", pool.offer(anOffer("r"), 1))[0]?.rejection.reason).toBe("queue-full");
  });

  test("the pool's own ceiling holds whatever queue the configuration asks for", () => {
    const pool = aPool({ limits: { queueMax: 3 } });
    pool.configure(aLivePool(1, { queueMax: 1_000_000 }), 0);
    expect(pool.status(0).queueMax).toBe(3);
  });

  test("a shorter queue turns nobody away who waits already", () => {
    const { pool } = aFullPool();
    for (const name of ["a", "b", "c"]) pool.offer(anOffer(name), 1);
    expect(only("reject", pool.configure(aLivePool(1, { queueMax: 1 }), 2))).toEqual([]);
    expect(only("reject", pool.offer(anOffer("d"), 3))[0]?.rejection.reason).toBe("queue-full");
  });

  test("a request that is withdrawn leaves the queue and is told so", () => {
    const { pool, leaseId } = aFullPool();
    pool.offer(anOffer("r"), 1);
    const [withdrawn] = only("reject", pool.withdraw(RequestId.parse("r"), 2));
    expect(withdrawn).toMatchObject({ requestId: "r", rejection: { reason: "withdrawn" } });
    expect(only("dispatch", pool.settle(leaseId, { kind: "completed" }, 3))).toEqual([]);
    pool.checkInvariants();
  });

  test("withdrawing a request that does not wait does nothing", () => {
    const { pool } = aFullPool();
    expect(pool.withdraw(RequestId.parse("first"), 1)).toEqual([]);
    expect(pool.withdraw(RequestId.parse("stranger"), 1)).toEqual([]);
    expect(pool.status(1).leases).toBe(1);
  });
});

describe("leases", () => {
  test("a settled lease gives its slot back once", () => {
    const { pool, leaseId } = aFullPool();
    pool.settle(leaseId, { kind: "completed" }, 1);
    expect(pool.settle(leaseId, { kind: "abandoned" }, 2)).toEqual([]);
    pool.checkInvariants();
    expect(only("dispatch", pool.offer(anOffer("r"), 3))).toHaveLength(1);
    expect(pool.status(3).leases).toBe(1);
  });

  test("a lease that nobody settles expires, and its slot goes to whoever waits", () => {
    const { pool } = aFullPool();
    const patience = { firstTokenBudgetMs: 2 * POOL_LIMITS.leaseMs };
    let nowMs = POOL_LIMITS.leaseMs - 1000;
    pool.report(replicaIdOf(0), aReport(2), nowMs);
    const [wake] = only("wake", pool.offer(anOffer("r", patience), nowMs)).slice(-1);
    expect(wake?.atMs).toBe(POOL_LIMITS.leaseMs);
    nowMs = POOL_LIMITS.leaseMs;
    expect(only("dispatch", pool.wake(nowMs)).map(({ requestId }) => requestId)).toEqual(["r"]);
    pool.checkInvariants();
  });

  test("at the bound of leases requests wait, though replicas have slots", () => {
    const pool = aReadyPool({ pool: { limits: { leasesMax: 1 } } });
    const [first] = only("dispatch", pool.offer(anOffer("a"), 0));
    expect(only("dispatch", pool.offer(anOffer("b"), 0))).toEqual([]);
    const leaseId = first?.leaseId ?? LeaseId.parse("none");
    expect(only("dispatch", pool.settle(leaseId, { kind: "completed" }, 1))).toHaveLength(1);
    pool.checkInvariants();
  });
});

describe("replicas that come and go", () => {
  test("a pool without replicas refuses with a retry", () => {
    const pool = aPool();
    pool.configure(aLivePool(1), 0);
    const [rejected] = only("reject", pool.offer(anOffer("r"), AFTER_RELEARNING));
    expect(rejected?.rejection).toEqual({
      code: "server_is_overloaded",
      reason: "no-replica",
      retryAfterMs: 1000,
      predictedWaitMs: undefined,
      promptTokens: 16,
    });
  });

  test("a pool that has just begun waits for its replicas to dial in", () => {
    const pool = aPool();
    pool.configure(aLivePool(1), 0);
    const patience = { firstTokenBudgetMs: 10_000 };
    const [wake] = only("wake", pool.offer(anOffer("r", patience), 10));
    expect(wake?.atMs).toBe(AFTER_RELEARNING);
    pool.connected(aHello(0), 500);
    const [sent] = only("dispatch", pool.report(replicaIdOf(0), aReport(1), 510));
    expect(sent?.dispatch.queuedMs).toBe(500);
  });

  test("a request does not wait for replicas beyond its own deadline", () => {
    const pool = aPool();
    pool.configure(aLivePool(1), 0);
    pool.offer(anOffer("r", { firstTokenBudgetMs: 300 }), 10);
    expect(only("reject", pool.wake(309))).toEqual([]);
    expect(only("reject", pool.wake(310))[0]?.rejection.reason).toBe("no-replica");
  });

  test("when relearning is over without a replica, whoever waits is refused", () => {
    const pool = aPool();
    pool.configure(aLivePool(1), 0);
    pool.offer(anOffer("r", { firstTokenBudgetMs: 10_000 }), 10);
    const [rejected] = only("reject", pool.wake(AFTER_RELEARNING));
    expect(rejected?.rejection.reason).toBe("no-replica");
    pool.checkInvariants();
  });

  test("a new pool waits for nobody when it has no replicas to expect", () => {
    const pool = aPool();
    pool.configure(aLivePool(0), 0);
    expect(only("reject", pool.offer(anOffer("r"), 1))[0]?.rejection.reason).toBe("no-replica");
  });

  test("a replica that falls silent gets nothing until it reports again", () => {
    const pool = aReadyPool();
    const late = REPORT_AGE_MS_MAX + 1;
    expect(only("reject", pool.offer(anOffer("a"), late))[0]?.rejection.reason).toBe("no-replica");
    pool.report(replicaIdOf(0), aReport(2), late + 1);
    expect(only("dispatch", pool.offer(anOffer("b"), late + 1))).toHaveLength(1);
  });

  test("when the last replica disconnects, whoever waits is refused at once", () => {
    const { pool } = aFullPool();
    pool.offer(anOffer("r"), 1);
    const [rejected] = only("reject", pool.disconnected(replicaIdOf(0), 2));
    expect(rejected?.rejection.reason).toBe("no-replica");
    expect(pool.status(2).leases).toBe(1);
    pool.checkInvariants();
  });

  test("a connection that is replaced costs nobody anything", () => {
    const { pool, leaseId } = aFullPool();
    pool.offer(anOffer("r"), 1);
    expect(pool.connected(aHello(0, { sequencesMax: 1 }), 2)).toEqual([]);
    const [sent] = only("dispatch", pool.settle(leaseId, { kind: "completed" }, 3));
    expect(sent?.requestId).toBe("r");
    pool.checkInvariants();
  });

  test("when the last replica begins to drain, whoever waits is refused at once", () => {
    const { pool } = aFullPool();
    pool.offer(anOffer("r"), 1);
    const effects = pool.report(replicaIdOf(0), aReport(2, { draining: true }), 2);
    expect(only("reject", effects)[0]?.rejection.reason).toBe("no-replica");
  });

  test("a restarted replica has all its slots, and leases of its old life are worth nothing", () => {
    const { pool, leaseId } = aFullPool();
    pool.disconnected(replicaIdOf(0), 1);
    pool.connected(aHello(0, { instanceId: "life-2", sequencesMax: 1 }), 2);
    pool.report(replicaIdOf(0), aReport(1), 3);
    expect(only("dispatch", pool.offer(anOffer("r"), 4))).toHaveLength(1);
    expect(pool.settle(leaseId, { kind: "upstream-failed" }, 5)).toEqual([]);
    expect(pool.status(5).leases).toBe(1);
    pool.checkInvariants();
  });

  test("a replica that left the configuration gets nothing new, and what runs there finishes", () => {
    const pool = aReadyPool();
    const [sent] = only("dispatch", pool.offer(anOffer("a"), 0));
    pool.configure(aLivePool(0), 1);
    expect(pool.replicaAt(urlOf(0))).toBeUndefined();
    expect(only("reject", pool.offer(anOffer("b"), 1))[0]?.rejection.reason).toBe("no-replica");
    expect(pool.status(1).replicas).toMatchObject([{ state: "removed", outstanding: 1 }]);
    pool.settle(sent?.leaseId ?? LeaseId.parse("none"), { kind: "completed" }, 2);
    expect(pool.status(2).replicas).toEqual([]);
    pool.checkInvariants();
  });

  test("a replica that was out of the configuration does not acknowledge what comes after", () => {
    const pool = aReadyPool();
    const [before] = only("dispatch", pool.offer(anOffer("a"), 0));
    pool.settle(before?.leaseId ?? LeaseId.parse("none"), { kind: "completed" }, 1);
    pool.configure(aLivePool(0), 2);
    pool.configure(aLivePool(1), 3);
    pool.connected(aHello(0), 4);
    const lastDispatch = { epoch: EPOCH, number: 1 };
    pool.report(replicaIdOf(0), aReport(1, { lastDispatch }), 5);
    pool.offer(anOffer("b", { promptBytes: 2100 }), 6);
    pool.report(replicaIdOf(0), aReport(2, { lastDispatch }), 7);
    const [rejected] = only("reject", pool.offer(anOffer("c", { firstTokenBudgetMs: 100 }), 8));
    expect(rejected?.rejection.predictedWaitMs).toBeGreaterThan(600);
  });

  test("events of replicas the pool does not know change nothing", () => {
    const pool = aReadyPool();
    expect(pool.report(replicaIdOf(7), aReport(1), 1)).toEqual([]);
    expect(pool.disconnected(replicaIdOf(7), 1)).toEqual([]);
    expect(() => pool.connected(aHello(7), 1)).toThrow(/configuration/);
    pool.checkInvariants();
  });
});

describe("Pool.status()", () => {
  test("the counts of a pool add up, and its replicas tell what they last reported", () => {
    const { pool } = aFullPool({ queueMax: 1 });
    pool.offer(anOffer("waits"), 1);
    pool.offer(anOffer("refused"), 1);
    pool.report(replicaIdOf(0), aReport(2, { runningRequests: 1, usedBlocks: 5 }), 2);
    expect(pool.status(2)).toEqual({
      queued: 1,
      queueMax: 1,
      leases: 1,
      offered: 3,
      dispatched: 1,
      rejected: 1,
      replicas: [
        {
          replicaId: replicaIdOf(0),
          endpointUrl: urlOf(0),
          state: "ready",
          outstanding: 1,
          running: 1,
          queued: 0,
          usedBlocks: 5,
          blockCount: 1024,
          prefillTokensPerSecond: 1000,
          stepMs: 10,
        },
      ],
    });
  });
});
