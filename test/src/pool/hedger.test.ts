import { describe, expect, test } from "vitest";
import type { Lease } from "../../../src/pool/lease-book.ts";
import type { Offer } from "../../../src/pool/offer.ts";
import { POOL_LIMITS } from "../../../src/pool/pool-limits.ts";
import type { Pool } from "../../../src/pool/pool.ts";
import { ADAPTERS } from "../../../src/adapters/adapters.ts";
import type { Engine } from "../../../src/protocol/engine-kind.ts";
import { FOREIGN_ENGINES } from "../../../src/protocol/engine-kind.ts";
import type { LeaseId } from "../../../src/protocol/ids.ts";
import {
  aLivePool,
  anOffer,
  aPool,
  aReadyPool,
  firstTokenWithin,
  NO_GUARANTEE,
  only,
} from "../../support/pool-builders.ts";
import { aHello, aReport, EPOCH, replicaIdOf } from "../../support/replica-builders.ts";
import { leaseOf } from "./full-pool.ts";

/** By then a request with a target of a second is late. */
const LATE_MS = 400;
/** So much work that what it was charged has not flowed back within its time. */
const LONG: Partial<Offer> = { outputTokensMax: 400 };
const COMPLETED = { kind: "completed", promptTokens: 20, outputTokens: 300 } as const;

/** A pool of three idle replicas that has sent one request, and what it says of it. */
function aLateRequest(change: Partial<Offer> = {}) {
  const pool = aReadyPool({ replicaCount: 3 });
  const offer = anOffer("late", change);
  const [sent] = only("dispatch", pool.offer(offer, 0));
  if (sent === undefined) throw new Error("An idle pool sends a request at once");
  return { pool, offer, leaseId: sent.leaseId, replicaId: sent.dispatch.replicaId };
}

/** The same of servers that are not ours, of these kinds, or of engines of ours among them. */
function aLateRequestAt(engines: readonly Engine[], change: Partial<Offer> = {}) {
  const pool = aPool({ startedAtMs: -60_000 });
  const { replicas, ...settings } = aLivePool(engines.length);
  const kinds = replicas.map((replica, index) => ({
    ...replica,
    engine: engines[index] ?? "vllm",
  }));
  pool.configure({ ...settings, replicas: kinds }, 0);
  for (const [index, engine] of engines.entries()) {
    if (engine !== "sluice") continue;
    pool.connected(aHello(index), 0);
    pool.report(replicaIdOf(index), aReport(1), 0);
  }
  const offer = anOffer("late", change);
  const [sent] = only("dispatch", pool.offer(offer, 0));
  if (sent === undefined) throw new Error("An idle pool sends a request at once");
  return { pool, offer, leaseId: sent.leaseId, replicaId: sent.dispatch.replicaId };
}

/** Asks for a second copy, and returns the lease of it if there is one. */
function hedge(
  { pool, offer, leaseId }: Pick<ReturnType<typeof aLateRequest>, "pool" | "offer" | "leaseId">,
  nowMs = LATE_MS,
): Lease | undefined {
  const now = { ...offer, elapsedMs: nowMs, isRetry: true };
  const [sent] = only("hedge", pool.hedge(leaseId, now, nowMs));
  pool.checkInvariants();
  return sent && pool.state.leases.get(sent.leaseId);
}

function hedged(late: ReturnType<typeof aLateRequest>): Lease {
  const lease = hedge(late);
  if (lease === undefined) throw new Error("A pool with room hedges a late request");
  return lease;
}

/** What the tenant is charged in the queue's account of it, in GPU-ms. */
function chargedMs(pool: Pool): number {
  return [...pool.state.leases.values()]
    .filter(({ isCharged }) => isCharged)
    .reduce((sum, lease) => sum + lease.chargedMs, 0);
}

/** What is left of the tenant's guarantee, to hold two pools against each other. */
function bucketOf(pool: Pool): unknown {
  const [tenant] = pool.state.tenants.values();
  return tenant?.bucket;
}

/** A pool in which the same request completed at the same time and was never late. */
function withoutHedge(): Pool {
  const { pool, leaseId } = aLateRequest(LONG);
  pool.started(leaseId, LATE_MS, LATE_MS + 1);
  pool.settle(leaseId, COMPLETED, LATE_MS + 2);
  return pool;
}

describe("a late request that its tenant was guaranteed", () => {
  test("is sent to another replica as well, with what is left of its time", () => {
    const late = aLateRequest();
    const sent = only(
      "hedge",
      late.pool.hedge(late.leaseId, { ...late.offer, elapsedMs: LATE_MS }, LATE_MS),
    );
    expect(sent).toHaveLength(1);
    expect(sent[0]?.dispatch).toMatchObject({ firstTokenBudgetMs: 600, isInProfile: true });
    expect(sent[0]?.dispatch.replicaId).not.toBe(late.replicaId);
    expect(late.pool.status(LATE_MS)).toMatchObject({ leases: 2, offered: 1, hedged: 1 });
  });

  test("is sent to none that it failed at before", () => {
    for (const index of [0, 1, 2]) {
      const late = aLateRequest({ excludedReplicaIds: [replicaIdOf(index)] });
      const lease = hedged(late);
      expect([late.replicaId, replicaIdOf(index)]).not.toContain(lease.replicaId);
    }
  });

  test.each(FOREIGN_ENGINES.filter((engine) => ADAPTERS[engine].endsWhenLeft))(
    "is sent to a second %s as well, of which nobody knows whether it has begun",
    (engine) => {
      const late = aLateRequestAt([engine, engine]);
      expect(hedged(late).replicaId).not.toBe(late.replicaId);
      expect(reasons(late)).toEqual(["sent"]);
    },
  );

  test("is sent, beyond our engine that has it, to no server that computes on when it is left", () => {
    // Only the first of them may have it, so that it is ours that is late.
    const others = { excludedReplicaIds: [replicaIdOf(1), replicaIdOf(2)] };
    for (const [kinds, copyAt] of [
      [["sluice", "openai", "vllm"], replicaIdOf(2)],
      [["sluice", "openai", "openai"], undefined],
    ] as const) {
      const late = aLateRequestAt(kinds, others);
      const again = { ...late, offer: { ...late.offer, excludedReplicaIds: [] } };
      expect(hedge(again)?.replicaId).toBe(copyAt);
    }
  });

  test("is not sent twice where its model may have only one request under way", () => {
    const late = aLateRequest();
    const { modelId } = late.offer;
    late.pool.configure({ ...aLivePool(3), modelLimits: [{ modelId, requestsMax: 1 }] }, 1);
    expect(hedge(late)).toBeUndefined();
    expect(late.pool.state.totals.hedges).toMatchObject({ "no-room": 1 });
  });

  test("is charged once where nobody ever settles either of its copies", () => {
    const late = aLateRequest();
    hedged(late);
    late.pool.wake(LATE_MS + POOL_LIMITS.leaseMs);
    late.pool.checkInvariants();
    expect(late.pool.status(LATE_MS + POOL_LIMITS.leaseMs).leases).toBe(0);
  });

  test("is hedged once", () => {
    const late = aLateRequest();
    late.pool.state.hedgeBudget.savedDispatches = 400;
    const copy = hedged(late);
    expect(hedge(late)).toBeUndefined();
    expect(hedge({ ...late, leaseId: copy.leaseId })).toBeUndefined();
    expect(late.pool.state.totals.hedges).toMatchObject({ sent: 1, settled: 2 });
  });

  test("takes one slot fewer again when both copies have ended, in whichever order", () => {
    for (const order of [0, 1]) {
      const late = aLateRequest();
      const copy = hedged(late);
      const ids: LeaseId[] = [late.leaseId, copy.leaseId];
      late.pool.settle(ids[order] ?? late.leaseId, { kind: "overtaken" }, 500);
      late.pool.checkInvariants();
      late.pool.settle(ids[1 - order] ?? late.leaseId, COMPLETED, 600);
      late.pool.checkInvariants();
      const { leases, replicas } = late.pool.status(600);
      expect(leases).toBe(0);
      expect(replicas.map(({ outstanding }) => outstanding)).toEqual([0, 0, 0]);
      for (const { present } of late.pool.state.tenants.values()) expect(present).toBe(0);
    }
  });
});

describe("the tenant of a hedged request", () => {
  test("is charged for one copy while two are under way", () => {
    const late = aLateRequest();
    const before = chargedMs(late.pool);
    expect(before).toBeGreaterThan(0);
    hedged(late);
    expect(chargedMs(late.pool)).toBe(before);
  });

  test.each([
    ["the first copy answers", "before it", 0],
    ["the first copy answers", "after it", 0],
    ["the second copy answers", "before it", 1],
    ["the second copy answers", "after it", 1],
  ] as const)(
    "pays what one answer costs when %s and the loser is settled %s",
    (_, loserSettles, winner) => {
      const late = aLateRequest(LONG);
      const { pool } = late;
      const ids = [late.leaseId, hedged(late).leaseId] as const;
      const [won, lost] = winner === 0 ? [ids[0], ids[1]] : [ids[1], ids[0]];
      pool.started(won, LATE_MS, LATE_MS + 1);
      if (loserSettles === "before it") pool.settle(lost, { kind: "overtaken" }, LATE_MS + 2);
      pool.settle(won, COMPLETED, LATE_MS + 2);
      if (loserSettles === "after it") pool.settle(lost, { kind: "overtaken" }, LATE_MS + 2);
      pool.checkInvariants();
      expect(bucketOf(pool)).toEqual(bucketOf(withoutHedge()));
    },
  );

  test("pays nothing when neither copy begins", () => {
    const fresh = aReadyPool({ replicaCount: 3 });
    const late = aLateRequest();
    const copy = hedged(late);
    late.pool.settle(late.leaseId, { kind: "upstream-failed" }, 500);
    expect(chargedMs(late.pool)).toBeGreaterThan(0);
    late.pool.settle(copy.leaseId, { kind: "upstream-failed" }, 500);
    // Another request finds as much of the guarantee as in a pool that has done nothing.
    const other = anOffer("other");
    expect(only("dispatch", late.pool.offer(other, 10_000))[0]?.dispatch.isInProfile).toBe(
      only("dispatch", fresh.offer(other, 10_000))[0]?.dispatch.isInProfile,
    );
    expect(late.pool.state.totals.endedBy["upstream-failed"]).toBe(2);
  });
});

/** What came of the hedges that were asked for. */
const reasons = ({ pool }: { pool: Pool }): string[] =>
  Object.entries(pool.state.totals.hedges).flatMap(([reason, count]) =>
    count > 0 ? [reason] : [],
  );

describe("a late request is not hedged", () => {
  test("when it was beyond its tenant's guarantee", () => {
    const late = aLateRequest({ share: NO_GUARANTEE });
    expect(hedge(late)).toBeUndefined();
    expect(reasons(late)).toEqual(["out-of-profile"]);
  });

  test("when it has begun", () => {
    const late = aLateRequest();
    late.pool.started(late.leaseId, 10, 10);
    expect(hedge(late)).toBeUndefined();
    expect(reasons(late)).toEqual(["settled"]);
  });

  test("when it comes whole, so that nobody sees which copy begins first", () => {
    const late = aLateRequest({ isStreamed: false });
    expect(hedge(late)).toBeUndefined();
  });

  test("when its replica says that it never came there", () => {
    const late = aLateRequest();
    late.pool.report(late.replicaId, aReport(2), 300);
    expect(hedge(late)).toBeUndefined();
    expect(reasons(late)).toEqual(["not-begun"]);
  });

  test("but is where the replica's last word is as old as the request, or it has come there", () => {
    const early = aLateRequest();
    early.pool.report(early.replicaId, aReport(2), 100);
    expect(hedge(early)).toBeDefined();
    const there = aLateRequest();
    const report = aReport(2, { runningRequests: 1, lastDispatch: { epoch: EPOCH, number: 1 } });
    there.pool.report(there.replicaId, report, 300);
    expect(hedge(there)).toBeDefined();
  });

  test("when its server computes on, and charges, after its client has left", () => {
    const late = aLateRequestAt(["openai", "openai", "openai"]);
    expect(hedge(late)).toBeUndefined();
    expect(reasons(late)).toEqual(["unstoppable"]);
  });

  test("when it would not be in time anywhere else", () => {
    const late = aLateRequest({ promptBytes: 1_000 });
    expect(hedge(late, 950)).toBeUndefined();
    expect(reasons(late)).toEqual(["infeasible"]);
  });

  test("when the budget is used up", () => {
    const late = aLateRequest();
    late.pool.state.hedgeBudget.savedDispatches = 49;
    expect(hedge(late)).toBeUndefined();
    expect(reasons(late)).toEqual(["no-budget"]);
    late.pool.state.hedgeBudget.savedDispatches = 50;
    expect(hedge(late)).toBeDefined();
    expect(late.pool.state.hedgeBudget.savedDispatches).toBe(0);
  });

  test("while others wait for the room that it would take", () => {
    const pool = aReadyPool({ replicaCount: 2, hello: { sequencesMax: 1 } });
    const patient = firstTokenWithin(20_000);
    const offer = anOffer("late", { targets: patient });
    const leaseId = leaseOf(pool.offer(offer, 0));
    const second = leaseOf(pool.offer(anOffer("second", { targets: patient }), 0));
    pool.offer(anOffer("waits", { targets: patient }), 0);
    expect(hedge({ pool, offer, leaseId })).toBeUndefined();
    expect(reasons({ pool })).toEqual(["no-room"]);
    pool.settle(second, COMPLETED, 10);
  });

  test("when its lease has ended", () => {
    const late = aLateRequest();
    late.pool.settle(late.leaseId, COMPLETED, 10);
    expect(hedge(late)).toBeUndefined();
  });
});
