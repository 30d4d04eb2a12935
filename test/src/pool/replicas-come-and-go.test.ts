import { describe, expect, test } from "vitest";
import { POOL_LIMITS } from "../../../src/pool/pool-limits.ts";
import { ModelId } from "../../../src/protocol/ids.ts";
import { REPORT_AGE_MS_MAX } from "../../../src/replicas/replica-condition.ts";
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

const AFTER_RELEARNING = POOL_LIMITS.relearnMs;
const PATIENT = { targets: firstTokenWithin(20_000) };

/** A pool that begins at 0 with one replica to come. */
function aNewPool() {
  const pool = aPool();
  pool.configure(aLivePool(1), 0);
  return pool;
}

describe("a pool that is closed", () => {
  test("refuses who waits and who comes, and lets finish what runs", () => {
    const { pool } = aFullPool();
    const waiting = pool.offer(anOffer("waits", PATIENT), 1);
    expect(only("reject", waiting)).toEqual([]);
    expect(refused(pool.close(true, 2))).toEqual({ waits: "closed" });
    expect(refused(pool.offer(anOffer("comes", PATIENT), 3))).toEqual({ comes: "closed" });
    expect(pool.status(3)).toMatchObject({ isClosed: true, queued: 0 });
    expect(pool.status(3).leases).toBeGreaterThan(0);
    pool.checkInvariants();
  });

  test("says that it is its own fault, and when to come back", () => {
    const pool = aReadyPool();
    pool.close(true, 1);
    const [reject] = only("reject", pool.offer(anOffer("r", { share: NO_GUARANTEE }), 2));
    expect(reject?.rejection.code).toBe("server_is_overloaded");
    expect(reject?.rejection.retryAfterMs).toBeGreaterThan(0);
  });

  test("sends on whose tenant would have another model answer", () => {
    const { pool } = aFullPool();
    const small = ModelId.parse("small");
    const overload = [
      { kind: "queue", ratio: 1 },
      { kind: "fallback", modelId: small },
    ] as const;
    pool.offer(anOffer("waits", { ...PATIENT, overload }), 1);
    const effects = [
      ...pool.close(true, 2),
      ...pool.offer(anOffer("comes", { ...PATIENT, overload }), 3),
    ];
    const asked = only("reject", effects).map(({ rejection }) => rejection.fallbackModelId);
    expect(asked).toEqual([small, small]);
  });

  test("serves again once it is opened", () => {
    const pool = aReadyPool();
    pool.close(true, 1);
    expect(pool.close(false, 2)).toEqual([]);
    expect(dispatched(pool.offer(anOffer("r"), 3))).toHaveLength(1);
  });
});

describe("a pool that has just begun", () => {
  test("waits for its replicas to dial in", () => {
    const pool = aNewPool();
    const [wake] = only("wake", pool.offer(anOffer("r", PATIENT), 10));
    expect(wake?.atMs).toBe(AFTER_RELEARNING);
    pool.connected(aHello(0), 500);
    const [sent] = only("dispatch", pool.report(replicaIdOf(0), aReport(1), 510));
    expect(sent?.dispatch.queuedMs).toBe(500);
    expect(sent?.dispatch.isInProfile).toBe(true);
  });

  test("does not let a request wait for replicas beyond its own deadline", () => {
    const pool = aNewPool();
    pool.offer(anOffer("r", { targets: firstTokenWithin(300) }), 10);
    expect(refused(pool.wake(309))).toEqual({});
    expect(refused(pool.wake(310))).toEqual({ r: "no-replica" });
  });

  test("refuses whoever waits when relearning is over without a replica", () => {
    const pool = aNewPool();
    pool.offer(anOffer("r", PATIENT), 10);
    expect(refused(pool.wake(AFTER_RELEARNING))).toEqual({ r: "no-replica" });
    pool.checkInvariants();
  });

  test("lets those wait on whom the replica that came has no room for yet", () => {
    const pool = aNewPool();
    pool.offer(anOffer("r", PATIENT), 10);
    pool.connected(aHello(0), 500);
    pool.report(replicaIdOf(0), aReport(1, { runningRequests: 4 }), 510);
    pool.report(replicaIdOf(0), aReport(2, { runningRequests: 4 }), AFTER_RELEARNING);
    const woken = pool.wake(AFTER_RELEARNING);
    expect(refused(woken)).toEqual({});
    expect(pool.status(AFTER_RELEARNING).queued).toBe(1);
    expect(dispatched(pool.report(replicaIdOf(0), aReport(3), 3_000))).toEqual(["r"]);
    pool.checkInvariants();
  });

  test("takes the requests of its previous life for what they are: taken slots", () => {
    const pool = aNewPool();
    pool.connected(aHello(0), 100);
    pool.report(replicaIdOf(0), aReport(1, { runningRequests: 3 }), 110);
    expect(dispatched(pool.offer(anOffer("a", PATIENT), 120))).toEqual(["a"]);
    expect(dispatched(pool.offer(anOffer("b", PATIENT), 120))).toEqual([]);
    pool.checkInvariants();
  });

  test("serves at first only what is guaranteed", () => {
    const pool = aNewPool();
    pool.connected(aHello(0), 100);
    pool.report(replicaIdOf(0), aReport(1), 110);
    const excess = anOfferOf("other", "excess", { ...PATIENT, share: NO_GUARANTEE });
    expect(dispatched(pool.offer(excess, 120))).toEqual([]);
    expect(dispatched(pool.offer(anOffer("guaranteed"), 130))).toEqual(["guaranteed"]);
    pool.report(replicaIdOf(0), aReport(2), AFTER_RELEARNING - 1);
    expect(dispatched(pool.wake(AFTER_RELEARNING))).toEqual(["excess"]);
  });

  test("waits for nobody when it has no replicas to expect", () => {
    const pool = aPool();
    pool.configure(aLivePool(0), 0);
    expect(refused(pool.offer(anOffer("r"), 1))).toEqual({ r: "no-replica" });
  });

  test("refuses with 503 whoever would not wait, for nobody exceeded anything", () => {
    const pool = aNewPool();
    const offer = anOffer("r", { overload: [{ kind: "reject" }], share: NO_GUARANTEE });
    const [rejected] = only("reject", pool.offer(offer, 1));
    expect(rejected?.rejection).toMatchObject({
      code: "server_is_overloaded",
      reason: "no-replica",
    });
  });
});

describe("replicas that come and go", () => {
  test("a pool without replicas refuses with a retry", () => {
    const [rejected] = only("reject", aNewPool().offer(anOffer("r"), AFTER_RELEARNING));
    expect(rejected?.rejection).toMatchObject({
      code: "server_is_overloaded",
      reason: "no-replica",
      predictedWaitMs: undefined,
      promptTokens: 16,
    });
    expect(rejected?.rejection.retryAfterMs).toBeGreaterThanOrEqual(1000);
  });

  test("a replica that falls silent gets nothing until it reports again", () => {
    const pool = aReadyPool();
    const late = REPORT_AGE_MS_MAX + 1;
    expect(refused(pool.offer(anOffer("a"), late))).toEqual({ a: "no-replica" });
    pool.report(replicaIdOf(0), aReport(2), late + 1);
    expect(dispatched(pool.offer(anOffer("b"), late + 1))).toEqual(["b"]);
  });

  test("a replica that drains gets nothing new", () => {
    const pool = aReadyPool({ replicaCount: 2 });
    pool.report(replicaIdOf(0), aReport(2, { draining: true }), 1);
    const targets = Array.from({ length: 4 }, (_, index) => {
      const [sent] = only("dispatch", pool.offer(anOffer(`r${index}`), 2));
      return sent?.dispatch.replicaId;
    });
    expect(new Set(targets)).toEqual(new Set([replicaIdOf(1)]));
  });

  test("whoever waits for a replica that has gone is served by it once it is back", () => {
    const { pool, leaseId } = aFullPool();
    pool.offer(anOffer("r"), 1);
    expect(refused(pool.disconnected(replicaIdOf(0), 2))).toEqual({});
    pool.settle(leaseId, { kind: "completed" }, 3);
    expect(pool.connected(aHello(0, { sequencesMax: 1 }), 10)).toMatchObject([
      { kind: "dispatch", requestId: "r" },
    ]);
    pool.checkInvariants();
  });

  test("whoever waits for a replica that does not come back is told that there is none", () => {
    const { pool } = aFullPool();
    const [wake] = only("wake", pool.offer(anOffer("r"), 1));
    pool.disconnected(replicaIdOf(0), 2);
    expect(refused(pool.wake(wake?.atMs ?? 0))).toEqual({ r: "no-replica" });
  });

  test("a report of a connection that is gone changes nothing", () => {
    const { pool } = aFullPool();
    pool.disconnected(replicaIdOf(0), 2);
    expect(pool.report(replicaIdOf(0), aReport(2), 3)).toEqual([]);
  });

  test("a restarted replica has all its slots, and leases of its old life are worth nothing", () => {
    const { pool, leaseId } = aFullPool();
    pool.disconnected(replicaIdOf(0), 1);
    pool.connected(aHello(0, { instanceId: "life-2", sequencesMax: 1 }), 2);
    pool.report(replicaIdOf(0), aReport(1), 3);
    expect(dispatched(pool.offer(anOffer("r", PATIENT), 4))).toEqual(["r"]);
    // Its caller is not told of the restart, and settles in its own time.
    expect(pool.status(5).leases).toBe(2);
    pool.checkInvariants();
    pool.settle(leaseId, { kind: "upstream-failed" }, 6);
    expect(pool.status(6)).toMatchObject({ leases: 1, replicas: [{ outstanding: 1 }] });
    pool.checkInvariants();
  });

  test("a lost lease says nothing of the process that came after", () => {
    const { pool, leaseId } = aFullPool();
    pool.connected(aHello(0, { instanceId: "life-2", sequencesMax: 1 }), 2);
    pool.report(replicaIdOf(0), aReport(1), 3);
    pool.settle(leaseId, { kind: "upstream-failed" }, 6);
    expect(pool.status(6).replicas).toMatchObject([{ health: "healthy" }]);
  });

  test("a replica that left the configuration gets nothing new, and what runs there finishes", () => {
    const pool = aReadyPool();
    const leaseId = leaseOf(pool.offer(anOffer("a"), 0));
    pool.configure(aLivePool(0), 1);
    expect(pool.replicaAt(urlOf(0))).toBeUndefined();
    expect(refused(pool.offer(anOffer("b"), 1))).toEqual({ b: "no-replica" });
    expect(pool.status(1).replicas).toMatchObject([{ state: "removed", outstanding: 1 }]);
    pool.settle(leaseId, { kind: "completed" }, 2);
    expect(pool.status(2).replicas).toEqual([]);
    pool.checkInvariants();
  });

  test("a replica that was out of the configuration does not acknowledge what comes after", () => {
    const pool = aReadyPool();
    const before = leaseOf(pool.offer(anOffer("a"), 0));
    pool.settle(before, { kind: "completed" }, 1);
    pool.configure(aLivePool(0), 2);
    pool.configure(aLivePool(1), 3);
    pool.connected(aHello(0), 4);
    const lastDispatch = { epoch: EPOCH, number: 1 };
    pool.report(replicaIdOf(0), aReport(1, { lastDispatch }), 5);
    pool.offer(anOffer("b", { promptBytes: 2100, ...PATIENT }), 6);
    pool.report(replicaIdOf(0), aReport(2, { lastDispatch }), 7);
    const hurried = anOffer("c", {
      targets: firstTokenWithin(500),
      overload: [{ kind: "reject" }],
    });
    const [rejected] = only("reject", pool.offer(hurried, 8));
    expect(rejected?.rejection.predictedWaitMs).toBeGreaterThan(600);
  });

  test("events of replicas the pool does not know change nothing", () => {
    const pool = aReadyPool();
    expect(pool.report(replicaIdOf(7), aReport(1), 1)).toEqual([]);
    expect(pool.disconnected(replicaIdOf(7), 1)).toEqual([]);
    expect(() => pool.connected(aHello(7), 1)).toThrow(/configuration/);
    pool.checkInvariants();
  });

  test("an ejected replica is asked again at once when the last one that is well has gone", () => {
    const pool = aReadyPool({ replicaCount: 2 });
    for (let index = 0; index < 3; index += 1) {
      const change = { excludedReplicaIds: [replicaIdOf(1)] };
      const leaseId = leaseOf(pool.offer(anOffer(`r${index}`, change), index));
      pool.settle(leaseId, { kind: "upstream-failed" }, index);
    }
    expect(pool.status(3).replicas).toMatchObject([{ health: "ejected" }, { health: "healthy" }]);
    pool.disconnected(replicaIdOf(1), 4);
    const [probe] = only("dispatch", pool.offer(anOffer("probe"), 5));
    expect(probe?.dispatch.replicaId).toBe(replicaIdOf(0));
    expect(dispatched(pool.offer(anOffer("next"), 6))).toEqual([]);
    const settled = pool.settle(
      leaseOf(probe === undefined ? [] : [probe]),
      { kind: "completed" },
      7,
    );
    expect(dispatched(settled)).toEqual(["next"]);
    pool.checkInvariants();
  });
});
