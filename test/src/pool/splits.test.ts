import { describe, expect, test } from "vitest";
import type { Dispatch, Offer, PrefillOutcome } from "../../../src/pool/offer.ts";
import type { Pool } from "../../../src/pool/pool.ts";
import type { ReplicaReport, ReplicaRole } from "../../../src/protocol/engine-api.ts";
import { LeaseId } from "../../../src/protocol/ids.ts";
import { aLivePool, anOffer, aPool, firstTokenWithin, only } from "../../support/pool-builders.ts";
import { chainOfText } from "../../support/prompt-chains.ts";
import { aHello, aReport, EPOCH, replicaIdOf, urlOf } from "../../support/replica-builders.ts";

/** A pool whose replicas have these roles, have reported and are idle. */
function aPoolOf(
  roles: readonly ReplicaRole[],
  reports: readonly Partial<ReplicaReport>[] = [],
): Pool {
  const pool = aPool({ startedAtMs: -60_000 });
  pool.configure(aLivePool(roles.length), 0);
  for (const [index, role] of roles.entries()) {
    pool.connected(aHello(index, { role, sequencesMax: 8 }), 0);
    pool.report(replicaIdOf(index), aReport(1, reports[index]), 0);
  }
  return pool;
}

/** Of which the estimate makes far more tokens than are worth moving. */
const LONG = { promptBytes: 4_000, targets: firstTokenWithin(60_000) };
const SHORT = { promptBytes: 400 };

function send(pool: Pool, name: string, change: Partial<Offer>, nowMs = 1): Dispatch | undefined {
  const effects = pool.offer(anOffer(name, change), nowMs);
  pool.checkInvariants();
  return only("dispatch", effects)[0]?.dispatch;
}

const ttftOf = (roles: readonly ReplicaRole[], report: Partial<ReplicaReport> = {}) =>
  send(aPoolOf(roles, [report]), "r", LONG)?.forecast.ttftMs ?? NaN;

/** What is foreseen of a short request behind a long one. */
const paceOf = (roles: readonly ReplicaRole[]) => {
  const pool = aPoolOf(roles);
  send(pool, "first", { ...LONG, outputTokensMax: 20 });
  return send(pool, "second", { ...SHORT, targets: LONG.targets })?.forecast.ttftMs ?? NaN;
};

/** A long prompt that was split. */
const given = (roles: readonly ReplicaRole[] = ["prefill", "decode"]) => {
  const pool = aPoolOf(roles);
  const dispatch = send(pool, "r", LONG);
  if (dispatch?.prefillAt === undefined) throw new Error("A long prompt is split");
  return { pool, dispatch, leaseId: leaseOf(dispatch) };
};

/** What is foreseen of a short request behind a long one, of whose prompt this became. */
const behind = (outcome: PrefillOutcome) => {
  const { pool, leaseId } = given();
  pool.prefilled(leaseId, outcome, 100);
  pool.checkInvariants();
  const next = send(pool, "next", { ...SHORT, targets: LONG.targets }, 101);
  return next?.forecast.ttftMs ?? NaN;
};

const outstanding = (pool: Pool) => pool.status(1).replicas.map((replica) => replica.outstanding);
const leaseOf = ({ dispatch }: Dispatch) => LeaseId.parse(dispatch);

describe("a pool of replicas that prefill and replicas that decode", () => {
  test("has a long prompt computed by one and answered by another, and holds a slot of each", () => {
    const pool = aPoolOf(["prefill", "decode"]);
    expect(send(pool, "r", LONG)).toMatchObject({
      replicaId: replicaIdOf(1),
      endpointUrl: urlOf(1),
      dispatch: `${EPOCH}.1`,
      prefillAt: { replicaId: replicaIdOf(0), endpointUrl: urlOf(0), dispatch: `${EPOCH}.2` },
    });
    expect(outstanding(pool)).toEqual([1, 1]);
    expect(pool.status(1)).toMatchObject({ offered: 1, dispatched: 2, split: 1, leases: 1 });
    expect(pool.status(1).replicas.map(({ role }) => role)).toEqual(["prefill", "decode"]);
  });

  test("has a short one computed where it is answered", () => {
    const pool = aPoolOf(["prefill", "decode"]);
    const dispatch = send(pool, "r", SHORT);
    expect(dispatch).toMatchObject({ replicaId: replicaIdOf(1) });
    expect(dispatch).not.toHaveProperty("prefillAt");
    expect(outstanding(pool)).toEqual([0, 1]);
  });

  test("has vectors, and answers that go on, computed in one place", () => {
    const continued = { promptTokens: 900, emittedTokens: 100, resumeByMs: 60_000 };
    for (const change of [{ operation: "embeddings" }, { continued, isRetry: true }] as const) {
      const pool = aPoolOf(["prefill", "decode"]);
      expect(send(pool, "r", { ...LONG, ...change })).not.toHaveProperty("prefillAt");
    }
  });

  test("splits nothing where a replica of all work takes the request", () => {
    const pool = aPoolOf(["prefill", "mixed"]);
    const dispatch = send(pool, "r", LONG);
    expect(dispatch).toMatchObject({ replicaId: replicaIdOf(1) });
    expect(dispatch).not.toHaveProperty("prefillAt");
  });

  test("splits nothing that could only be late there", () => {
    // Somewhat more than the prefill takes, and the half of that is less.
    for (const limitMs of [1_400, 1_600, 2_000]) {
      const pool = aPoolOf(["prefill", "decode"]);
      const dispatch = send(pool, "r", { ...LONG, targets: firstTokenWithin(limitMs) });
      expect(dispatch?.prefillAt).toBeUndefined();
    }
    const dispatch = send(aPoolOf(["prefill", "decode"]), "r", LONG);
    expect(dispatch?.prefillAt?.limitMs).toBeGreaterThan(2 * 1_000);
    expect(dispatch?.prefillAt?.limitMs).toBeLessThan(30_000);
  });

  test("names nobody as having what is still to be computed", () => {
    const chain = chainOfText("abcdefgh");
    expect(send(aPoolOf(["prefill", "decode"]), "r", { ...LONG, chain })).not.toHaveProperty(
      "kvPeerUrl",
    );
  });

  test("hedges in one place", () => {
    const pool = aPoolOf(["prefill", "decode", "decode"]);
    const dispatch = send(pool, "r", LONG);
    if (dispatch === undefined) throw new Error("It is sent");
    const effects = pool.hedge(leaseOf(dispatch), anOffer("r", { ...LONG, isRetry: true }), 400);
    const [hedge] = only("hedge", effects);
    expect(hedge?.dispatch).not.toHaveProperty("prefillAt");
    const lease = hedge && pool.state.leases.get(hedge.leaseId);
    expect(lease?.cachedTokens).toBe(0);
    pool.checkInvariants();
  });

  test("takes the prefill replica that has least to do", () => {
    const busy = { queuedUncachedTokens: 5_000, runningRequests: 1 };
    const pool = aPoolOf(["prefill", "prefill", "decode"], [busy]);
    const dispatch = send(pool, "r", LONG);
    expect(dispatch?.prefillAt?.replicaId).toBe(replicaIdOf(1));
    expect(send(pool, "s", LONG)?.prefillAt?.replicaId).toBe(replicaIdOf(1));
  });

  test("counts what it has sent there already", () => {
    const pool = aPoolOf(["prefill", "prefill", "decode"]);
    const places = ["a", "b", "c", "d"].map((name) => send(pool, name, LONG)?.prefillAt?.replicaId);
    for (const index of [0, 1]) {
      expect(places.filter((place) => place === replicaIdOf(index))).toHaveLength(2);
    }
  });

  test("computes a prompt where it is answered if that keeps its target and the split would not", () => {
    // The second has no room for it in sight.
    for (const queuedUncachedTokens of [12_000, 100_000]) {
      const pool = aPoolOf(["prefill", "decode"], [{ queuedUncachedTokens, runningRequests: 4 }]);
      const dispatch = send(pool, "r", { ...LONG, targets: firstTokenWithin(5_000) });
      expect(dispatch).toMatchObject({ replicaId: replicaIdOf(1) });
      expect(dispatch).not.toHaveProperty("prefillAt");
    }
  });

  test("foresees the queue of the one, the transfer and the step of the other", () => {
    const idle = ttftOf(["prefill", "decode"]);
    const whole = ttftOf(["mixed", "mixed"]);
    expect(idle).toBeGreaterThan(whole);
    expect(idle).toBeLessThan(1.2 * whole);
    const queued = ttftOf(["prefill", "decode"], {
      queuedUncachedTokens: 2_000,
      runningRequests: 1,
    });
    expect(queued - idle).toBeGreaterThan(1_900);
  });

  test("foresees no disturbance of those who decode by a prompt that is computed elsewhere", () => {
    expect(paceOf(["prefill", "decode"])).toBeLessThan(0.5 * paceOf(["prefill", "mixed"]));
  });
});

describe("a slot for a prompt alone", () => {
  test("is given back when it has been computed, once", () => {
    const { pool, leaseId } = given();
    for (const kind of ["done", "failed"] as const) {
      pool.prefilled(leaseId, kind === "done" ? { kind, cachedTokens: 0 } : { kind }, 500);
      pool.checkInvariants();
      expect(outstanding(pool)).toEqual([0, 1]);
    }
    pool.settle(leaseId, { kind: "completed" }, 900);
    pool.checkInvariants();
    expect(outstanding(pool)).toEqual([0, 0]);
  });

  test("that was not computed is work of the replica that answers", () => {
    const done = behind({ kind: "done", cachedTokens: 0 });
    for (const kind of ["failed", "late", "refused"] as const) {
      expect(behind({ kind })).toBeGreaterThan(3 * done);
    }
  });

  test("teaches what split requests take by those alone that were split", () => {
    for (const kind of ["done", "failed"] as const) {
      const { pool, leaseId } = given();
      pool.prefilled(leaseId, kind === "done" ? { kind, cachedTokens: 0 } : { kind }, 100);
      pool.started(leaseId, 9_000, 9_000);
      const profiles = [...pool.state.calibration.byProfile.keys()];
      expect(profiles.some((profile) => profile.endsWith("split"))).toBe(kind === "done");
    }
  });

  test("that is late costs its replica its name only if it was given its time", () => {
    for (const [targets, isFault] of [
      [firstTokenWithin(60_000), true],
      [firstTokenWithin(3_500), false],
    ] as const) {
      const pool = aPoolOf(["prefill", "decode", "decode"]);
      for (let index = 0; index < 6; index += 1) {
        const dispatch = send(pool, `r${index}`, { ...LONG, targets }, 10 + index);
        if (dispatch?.prefillAt === undefined) break;
        pool.prefilled(leaseOf(dispatch), { kind: "late" }, 10 + index);
        pool.settle(leaseOf(dispatch), { kind: "completed" }, 10 + index);
      }
      expect(pool.status(40).split).toBeGreaterThan(2);
      expect(pool.status(40).replicas[0]?.health === "ejected").toBe(isFault);
    }
  });

  test("is given back with the request's lease, whatever ends that", () => {
    for (const end of ["settled", "expired"] as const) {
      const { pool, leaseId } = given();
      if (end === "settled") pool.settle(leaseId, { kind: "client-gone" }, 100);
      else pool.wake(10 * 60_000 + 86_400_000);
      pool.checkInvariants();
      expect(outstanding(pool)).toEqual([0, 0]);
      // Late news changes nothing.
      expect(pool.prefilled(leaseId, { kind: "done", cachedTokens: 0 }, 200_000_000)).toEqual([]);
    }
  });

  test("goes with its replica's process, and the request stays where it is", () => {
    const { pool, leaseId } = given();
    pool.connected(aHello(0, { role: "prefill", instanceId: "another life" }), 50);
    pool.checkInvariants();
    expect(outstanding(pool)).toEqual([0, 1]);
    pool.prefilled(leaseId, { kind: "failed" }, 60);
    pool.settle(leaseId, { kind: "completed" }, 900);
    pool.checkInvariants();
    expect(outstanding(pool)).toEqual([0, 0]);
  });

  test("outlives the process of the replica that was to answer", () => {
    const { pool, leaseId } = given();
    pool.connected(aHello(1, { role: "decode", instanceId: "another life" }), 50);
    pool.checkInvariants();
    expect(outstanding(pool)).toEqual([1, 0]);
    pool.settle(leaseId, { kind: "upstream-failed" }, 60);
    pool.checkInvariants();
    expect(outstanding(pool)).toEqual([0, 0]);
  });

  test("leaves its replica alone after failures, and then prompts are computed where they are answered", () => {
    const pool = aPoolOf(["prefill", "decode", "decode"]);
    for (let index = 0; index < 12; index += 1) {
      const dispatch = send(pool, `r${index}`, LONG, 10 + index);
      if (dispatch?.prefillAt === undefined) break;
      pool.prefilled(leaseOf(dispatch), { kind: "failed" }, 10 + index);
      pool.settle(leaseOf(dispatch), { kind: "completed" }, 10 + index);
    }
    expect(pool.status(40).replicas[0]?.health).toBe("ejected");
    expect(send(pool, "next", LONG, 40)).not.toHaveProperty("prefillAt");
  });
});

describe("a replica that prefills for others", () => {
  test("is sent no whole request while another one could take it, be it full", () => {
    const pool = aPoolOf(["prefill", "decode"]);
    for (let index = 0; index < 8; index += 1) send(pool, `r${index}`, { ...SHORT, targets: {} });
    expect(outstanding(pool)).toEqual([0, 8]);
    expect(send(pool, "one more", { ...SHORT, targets: {} })).toBeUndefined();
    expect(pool.status(1).queued).toBe(1);
  });

  test("answers all by itself where nobody else is well", () => {
    const pool = aPoolOf(["prefill", "decode"]);
    pool.disconnected(replicaIdOf(1), 1);
    const dispatch = send(pool, "r", LONG, 2);
    expect(dispatch).toMatchObject({ replicaId: replicaIdOf(0) });
    expect(dispatch).not.toHaveProperty("prefillAt");
  });

  test("is not asked while it drains, nor once it is silent", () => {
    const draining = aPoolOf(["prefill", "decode"], [{ draining: true }]);
    expect(send(draining, "r", LONG)).not.toHaveProperty("prefillAt");
    const pool = aPoolOf(["prefill", "decode"]);
    pool.report(replicaIdOf(1), aReport(2), 60_000);
    expect(send(pool, "r", LONG, 60_001)).not.toHaveProperty("prefillAt");
  });
});
