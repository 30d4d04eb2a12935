import { describe, expect, test } from "vitest";
import type { Offer } from "../../../src/pool/offer.ts";
import { callPool } from "../../../src/pool/pool-call.ts";
import type { Pool } from "../../../src/pool/pool.ts";
import type { LeaseId } from "../../../src/protocol/ids.ts";
import { ModelId } from "../../../src/protocol/ids.ts";
import type { LivePool } from "../../../src/tenants/live-configuration.ts";
import {
  aLivePool,
  anOffer,
  aPool,
  firstTokenWithin,
  NO_GUARANTEE,
  only,
} from "../../support/pool-builders.ts";
import { SIGNALS_AGE_MS_MAX } from "../../../src/replicas/replica-condition.ts";
import { aHello, aReport, replicaIdOf } from "../../support/replica-builders.ts";
import { RandomCalls, TIGHT_LIMITS } from "./random-calls.ts";

const PATIENT: Partial<Offer> = { targets: firstTokenWithin(30_000), isStreamed: false };

/** A pool of servers that are not ours, begun at this very instant. */
function aPlainPool(replicaCount: number, change: Partial<LivePool> = {}): Pool {
  const pool = aPool();
  pool.configure({ ...aLivePool(replicaCount), engine: "openai", ...change }, 0);
  return pool;
}

/** Offers a request and returns where it went, if it did. */
function dispatched(pool: Pool, name: string, nowMs: number, change: Partial<Offer> = {}) {
  const [effect] = only("dispatch", pool.offer(anOffer(name, { ...PATIENT, ...change }), nowMs));
  pool.checkInvariants();
  return effect;
}

function leaseOf(effect: { readonly leaseId: LeaseId } | undefined): LeaseId {
  if (effect === undefined) throw new Error("The request was not dispatched");
  return effect.leaseId;
}

describe("a pool of servers that never report", () => {
  test("sends requests from the first instant on, also what nobody is guaranteed", () => {
    const pool = aPlainPool(1);
    const excess = { share: NO_GUARANTEE };
    expect(dispatched(pool, "one", 0, excess)?.dispatch.endpointUrl).toBe("http://127.0.0.1:9101");
  });

  test("tells who is asked that it is not ours, and which secret it is sent", () => {
    expect(dispatched(aPlainPool(1), "one", 0)?.dispatch.plain).toEqual({ engine: "openai" });
    const named = aPlainPool(1, { secretName: "QA_TOKEN" });
    expect(dispatched(named, "one", 0)?.dispatch.plain).toEqual({
      engine: "openai",
      secretName: "QA_TOKEN",
    });
  });

  test("tells how urgent a request is where that is asked for, by what was promised, and nowhere else", () => {
    const { replicas } = aLivePool(1);
    const told = replicas.map((replica) => ({ ...replica, takesPriorities: true as const }));
    const pool = aPlainPool(1, { engine: "vllm", replicas: told });
    const urgencyOf = (name: string, change: Partial<Offer>) =>
      dispatched(pool, name, 0, { isStreamed: true, ...change })?.dispatch.urgency;
    const soon = firstTokenWithin(1_500);
    expect(urgencyOf("soon", { targets: soon })).toBe(8);
    expect(urgencyOf("late", { targets: soon, elapsedMs: 1_200 })).toBe(9);
    expect(urgencyOf("patient", { targets: firstTokenWithin(30_000) })).toBe(6);
    expect(urgencyOf("excess", { targets: soon, share: NO_GUARANTEE })).toBe(3);
    const band = { ...NO_GUARANTEE, band: 9 };
    expect(urgencyOf("of a late band", { targets: soon, share: band })).toBe(1);
    // A wish is not a promise.
    const wish = { targets: soon, promised: firstTokenWithin(30_000) };
    expect(urgencyOf("wish", wish)).toBe(6);
    // A whole answer is due with its end.
    const end = { e2e: { percentileRatio: 0.99, limitMs: 7_000 } };
    expect(urgencyOf("whole", { targets: end, isStreamed: false })).toBe(7);
    const untold = dispatched(aPlainPool(1, { engine: "vllm" }), "one", 0)?.dispatch;
    expect(untold).not.toHaveProperty("urgency");
  });

  test("goes by what they say of themselves: not to one that is unready, nor behind others' queue", () => {
    const pool = aPlainPool(3, { engine: "vllm" });
    pool.told(replicaIdOf(0), { isReady: false }, 0);
    pool.told(replicaIdOf(1), { isReady: true, running: 40, queued: 200 }, 0);
    pool.told(replicaIdOf(2), { isReady: true, running: 2, queued: 0 }, 0);
    const chosen = ["a", "b", "c", "d"].map((name) => dispatched(pool, name, 1)?.dispatch);
    expect(chosen.map((dispatch) => dispatch?.replicaId)).toEqual(Array(4).fill(replicaIdOf(2)));
    const states = pool.status(1).replicas.map(({ state }) => state);
    expect(states).toEqual(["unready", "ready", "ready"]);
  });

  test("may stand beside engines of ours in one pool, each known in its own way", () => {
    const { replicas } = aLivePool(2);
    const [ours, theirs] = replicas;
    if (ours === undefined || theirs === undefined) throw new Error("There are two replicas");
    const pool = aPool();
    pool.configure({ ...aLivePool(2), replicas: [ours, { ...theirs, engine: "vllm" }] }, 0);
    expect(pool.status(0).replicas.map(({ state }) => state)).toEqual(["disconnected", "ready"]);
    expect(dispatched(pool, "first", 1)?.dispatch).toMatchObject({
      replicaId: replicaIdOf(1),
      plain: { engine: "vllm" },
    });
    pool.connected(aHello(0), 2);
    pool.report(replicaIdOf(0), aReport(1), 3);
    const elsewhere = { excludedReplicaIds: [replicaIdOf(1)] };
    const second = dispatched(pool, "second", 4, elsewhere)?.dispatch;
    expect(second?.replicaId).toBe(replicaIdOf(0));
    expect(second?.plain).toBeUndefined();
    pool.checkInvariants();
  });

  test("believes nothing that was said too long ago, or that is said of a replica it does not have", () => {
    const pool = aPlainPool(1, { engine: "vllm" });
    pool.told(replicaIdOf(0), { isReady: false }, 0);
    pool.told(replicaIdOf(7), { isReady: false }, 0);
    expect(dispatched(pool, "early", SIGNALS_AGE_MS_MAX)).toBeUndefined();
    // Who waits is served when what was said is no longer believed, at the next event.
    expect(dispatched(pool, "late", SIGNALS_AGE_MS_MAX + 1)).toBeDefined();
  });

  test("spreads a burst although nothing is heard of anybody", () => {
    const pool = aPlainPool(2);
    const replicaIds = Array.from({ length: 8 }, (_, index) => {
      return dispatched(pool, `request-${index}`, 0)?.dispatch.replicaId;
    });
    for (const index of [0, 1]) {
      const there = replicaIds.filter((replicaId) => replicaId === replicaIdOf(index));
      expect(there.length).toBeGreaterThanOrEqual(3);
    }
  });

  test("sends no more to one than it may have at once; the next one waits", () => {
    const pool = aPlainPool(1, { replicas: aLivePool(1, { requestsMax: 2 }).replicas });
    const first = dispatched(pool, "one", 0);
    expect(dispatched(pool, "two", 0)).toBeDefined();
    expect(dispatched(pool, "three", 0)).toBeUndefined();
    const effects = pool.settle(leaseOf(first), { kind: "completed", outputTokens: 1 }, 50);
    expect(only("dispatch", effects)).toMatchObject([{ requestId: "three" }]);
  });

  test("leaves one alone after as many failures in a row as are configured, then tries it by a request", () => {
    const pool = aPlainPool(2, { health: { ejectAfter: 2, cooldownMsMax: 1_000 } });
    const healthOf = (index: number, nowMs: number) => pool.status(nowMs).replicas[index]?.health;
    const failing = { excludedReplicaIds: [replicaIdOf(1)] };
    for (const [name, health] of [
      ["one", "suspect"],
      ["two", "ejected"],
    ] as const) {
      pool.settle(leaseOf(dispatched(pool, name, 0, failing)), { kind: "upstream-failed" }, 0);
      expect(healthOf(0, 0)).toBe(health);
    }
    expect(dispatched(pool, "meanwhile", 500)?.dispatch.replicaId).toBe(replicaIdOf(1));
    expect(healthOf(0, 1_000)).toBe("probing");
    const probe = dispatched(pool, "probe", 1_000, failing);
    pool.settle(leaseOf(probe), { kind: "completed", outputTokens: 1 }, 1_100);
    expect(healthOf(0, 1_100)).toBe("healthy");
  });

  test("turns no prompt away for good: how fast such a server can be nobody knows", () => {
    const pool = aPlainPool(1);
    const huge = anOffer("huge", { promptBytes: 40_000_000, targets: firstTokenWithin(1_000) });
    const [rejection] = only("reject", pool.offer(huge, 0));
    expect(rejection?.rejection.reason).not.toBe("unattainable");
  });

  test("says nothing of what nobody told it", () => {
    const [replica] = aPlainPool(1).status(0).replicas;
    expect(replica).toEqual({
      replicaId: replicaIdOf(0),
      endpointUrl: "http://127.0.0.1:9101",
      state: "ready",
      health: "healthy",
      outstanding: 0,
    });
  });

  test("leaves one alone as long as it asks for, and asks it at once when that is over", () => {
    const pool = aPlainPool(1);
    const first = leaseOf(dispatched(pool, "first", 0));
    pool.limited(first, { isRefused: false, holdOffMs: 300 }, 10);
    expect(pool.status(10).replicas[0]).toMatchObject({ state: "ready", heldForMs: 300 });
    const waits = pool.offer(anOffer("second", PATIENT), 20);
    expect(only("dispatch", waits)).toEqual([]);
    const [wake] = only("wake", waits);
    expect(wake?.atMs).toBe(310);
    expect(only("dispatch", pool.wake(310))).toMatchObject([{ requestId: "second" }]);
  });

  test("sends others to another one meanwhile", () => {
    const pool = aPlainPool(2);
    const first = dispatched(pool, "first", 0);
    pool.limited(leaseOf(first), { isRefused: true, holdOffMs: 60_000 }, 0);
    const others = ["a", "b", "c"].map((name) => dispatched(pool, name, 1)?.dispatch.replicaId);
    expect(others).not.toContain(first?.dispatch.replicaId);
    expect(others).not.toContain(undefined);
  });

  test("hopes for no other one that wants to be left alone", () => {
    const pool = aPlainPool(2);
    const first = dispatched(pool, "first", 0);
    const elsewhere = { excludedReplicaIds: first === undefined ? [] : [first.dispatch.replicaId] };
    const other = leaseOf(dispatched(pool, "other", 0, elsewhere));
    expect(pool.prospectsOf(leaseOf(first), [], 1)?.hasOther).toBe(true);
    pool.limited(other, { isRefused: false, holdOffMs: 100 }, 1);
    expect(pool.prospectsOf(leaseOf(first), [], 100)?.hasOther).toBe(false);
    expect(pool.prospectsOf(leaseOf(first), [], 101)?.hasOther).toBe(true);
  });

  test.each([
    ["openai", true],
    ["vllm", false],
  ] as const)(
    "finds by late first tokens of %s how many it takes at once: %s",
    (engine, isFound) => {
      const pool = aPlainPool(1, { engine });
      for (let index = 0; index < 20; index++) {
        const leaseId = leaseOf(dispatched(pool, `alone-${index}`, 0, PATIENT));
        pool.started(leaseId, 100, 0);
        pool.settle(leaseId, { kind: "completed", outputTokens: 20 }, 0);
      }
      const crowd = Array.from({ length: 40 }, (_, index) =>
        leaseOf(dispatched(pool, `crowd-${index}`, 0, PATIENT)),
      );
      for (const leaseId of crowd) pool.started(leaseId, 900, 0);
      const [replica] = pool.status(0).replicas;
      expect((replica?.ceiling ?? Infinity) < 40).toBe(isFound);
      pool.checkInvariants();
    },
  );

  test("sends no more at once than were not refused, and no limit is heeded of a lease that has ended", () => {
    const pool = aPlainPool(1);
    const leases = Array.from({ length: 10 }, (_, index) =>
      leaseOf(dispatched(pool, `request-${index}`, 0)),
    );
    const said = { isRefused: true, holdOffMs: 0 };
    for (const leaseId of leases) pool.limited(leaseId, said, 1);
    expect(pool.status(1).replicas[0]).toMatchObject({ ceiling: 9, outstanding: 10 });
    for (const leaseId of leases.slice(0, 2)) {
      pool.settle(leaseId, { kind: "upstream-refused" }, 2);
      pool.limited(leaseId, { isRefused: true, holdOffMs: 60_000 }, 2);
    }
    expect(dispatched(pool, "ninth", 3)).toBeDefined();
    expect(dispatched(pool, "tenth", 3)).toBeUndefined();
    pool.checkInvariants();
  });

  test("keeps its laws whatever happens in whatever order", () => {
    const model = ModelId.parse("sluice-tiny");
    const change: Partial<LivePool> = {
      engine: "openai",
      modelLimits: [{ modelId: model, requestsMax: 3 }],
    };
    let most = 0;
    for (let seed = 1; seed <= 12; seed++) {
      const pool = aPool({ seed, limits: TIGHT_LIMITS });
      const calls = new RandomCalls(seed, change);
      for (let index = 0; index < 250; index++) {
        calls.heed(callPool(pool, calls.next(), calls.nowMs));
        pool.checkInvariants();
        most = Math.max(most, pool.status(calls.nowMs).leases);
      }
    }
    // Exactly as many as the model may have: fewer would test nothing.
    expect(most).toBe(3);
  });
});

describe("a model that may have so many requests under way", () => {
  const NARROW = ModelId.parse("narrow");
  const aNarrowPool = (change: Partial<LivePool> = {}) =>
    aPlainPool(2, { modelLimits: [{ modelId: NARROW, requestsMax: 1 }], ...change });
  const narrow = { modelId: NARROW };

  test("has no more over all replicas, and the next one begins when one ends, wherever that is", () => {
    const pool = aNarrowPool();
    let running = leaseOf(dispatched(pool, "request-0", 0, narrow));
    for (let index = 1; index < 12; index++) {
      expect(dispatched(pool, `request-${index}`, index, narrow)).toBeUndefined();
    }
    for (let index = 1; index < 12; index++) {
      const effects = pool.settle(running, { kind: "completed", outputTokens: 1 }, 100 + index);
      pool.checkInvariants();
      const started = only("dispatch", effects);
      expect(started).toHaveLength(1);
      running = leaseOf(started[0]);
    }
    expect(pool.status(200)).toMatchObject({ queued: 0, leases: 1 });
  });

  test("lets one go on that may not be sent to where the last one ended", () => {
    const pool = aNarrowPool();
    const first = dispatched(pool, "first", 0, { ...narrow, excludedReplicaIds: [replicaIdOf(1)] });
    const elsewhere = { ...narrow, excludedReplicaIds: [replicaIdOf(0)] };
    expect(dispatched(pool, "second", 0, elsewhere)).toBeUndefined();
    const effects = pool.settle(leaseOf(first), { kind: "completed", outputTokens: 1 }, 10);
    expect(only("dispatch", effects)).toMatchObject([
      { requestId: "second", dispatch: { replicaId: replicaIdOf(1) } },
    ]);
  });

  test("stands in nobody's way: others of the same tenant behind it are served", () => {
    const pool = aNarrowPool({ replicas: aLivePool(2, { requestsMax: 1 }).replicas });
    dispatched(pool, "narrow-0", 0, narrow);
    const other = leaseOf(dispatched(pool, "other-0", 0));
    for (let index = 1; index < 10; index++) dispatched(pool, `narrow-${index}`, 0, narrow);
    expect(dispatched(pool, "other-1", 0)).toBeUndefined();
    const effects = pool.settle(other, { kind: "completed", outputTokens: 1 }, 10);
    expect(only("dispatch", effects)).toMatchObject([{ requestId: "other-1" }]);
  });

  test("takes back no slot of others: a slot is not what it waits for", () => {
    const pool = aNarrowPool({ replicas: aLivePool(2, { requestsMax: 1 }).replicas });
    dispatched(pool, "narrow-0", 0, { ...narrow, isStreamed: true });
    dispatched(pool, "excess", 0, { share: NO_GUARANTEE, isStreamed: true });
    const effects = pool.offer(anOffer("narrow-1", { ...PATIENT, ...narrow }), 0);
    expect(only("displace", effects)).toEqual([]);
  });

  test("has none any more once the configuration says nothing of it", () => {
    const pool = aNarrowPool();
    dispatched(pool, "one", 0, narrow);
    expect(dispatched(pool, "two", 0, narrow)).toBeUndefined();
    const effects = pool.configure({ ...aLivePool(2), engine: "openai" }, 1);
    expect(only("dispatch", effects)).toMatchObject([{ requestId: "two" }]);
  });
});
