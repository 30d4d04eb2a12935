import { describe, expect, test } from "vitest";
import type { Mechanisms } from "../../../src/pool/mechanisms.ts";
import type { Offer } from "../../../src/pool/offer.ts";
import type { Pool } from "../../../src/pool/pool.ts";
import {
  anOffer,
  aReadyPool,
  firstTokenWithin,
  NO_GUARANTEE,
} from "../../support/pool-builders.ts";
import { aReport, replicaIdOf } from "../../support/replica-builders.ts";
import { leaseOf } from "./full-pool.ts";

const PATIENT: Partial<Offer> = { targets: firstTokenWithin(30_000), outputTokensMax: 5_000 };

/** Sends a request that begins at once; its replica decodes a token in about ten milliseconds. */
function running(change: Partial<Offer> = {}, mechanisms: Partial<Mechanisms> = {}) {
  const pool = aReadyPool({ pool: { mechanisms } });
  const leaseId = leaseOf(pool.offer(anOffer("r", { ...PATIENT, ...change }), 0));
  pool.started(leaseId, 0, 0);
  return { pool, leaseId };
}

/** Lets time pass, with a report every half second. */
function pass(pool: Pool, fromMs: number, untilMs: number): void {
  for (let nowMs = fromMs + 500; nowMs <= untilMs; nowMs += 500) {
    pool.report(replicaIdOf(0), aReport(2 + nowMs, { runningRequests: 1 }), nowMs);
    pool.checkInvariants();
  }
}

/** Sends short answers, and then some that do not end; returns what the next would be charged. */
function nextTokens(mechanisms: Partial<Mechanisms>): number {
  const pool = aReadyPool({ hello: { sequencesMax: 64 }, pool: { mechanisms } });
  for (let nowMs = 0; nowMs < 5_000; nowMs += 50) {
    pool.report(replicaIdOf(0), aReport(2 + nowMs), nowMs);
    const leaseId = leaseOf(pool.offer(anOffer(`short${nowMs}`, PATIENT), nowMs));
    pool.settle(leaseId, { kind: "completed", outputTokens: 10, decodeMs: 90 }, nowMs);
  }
  for (let index = 0; index < 30; index += 1) {
    pool.started(leaseOf(pool.offer(anOffer(`long${index}`, PATIENT), 5_000)), 0, 5_000);
  }
  pass(pool, 5_000, 9_000);
  pool.offer(anOffer("next", PATIENT), 9_001);
  return [...pool.state.leases.values()].at(-1)?.outputTokens ?? 0;
}

const spentMsOf = (pool: Pool) => [...pool.state.tenants.values()][0]?.bucket.burst.spentMs ?? 0;
const leaseIn = (pool: Pool) => [...pool.state.leases.values()][0];

describe("a request that goes on beyond its forecast", () => {
  test("is charged more while it does", () => {
    const { pool } = running();
    pass(pool, 0, 10_000);
    const { costMs = 0, chargedMs = 0 } = leaseIn(pool) ?? {};
    expect(chargedMs).toBeGreaterThan(2 * costMs);
  });

  test("is charged up to when its replica was heard of, and the rest once it is again", () => {
    const { pool } = running();
    pass(pool, 0, 1_000);
    const { tokensSoFar = 0 } = leaseIn(pool) ?? {};
    expect(tokensSoFar).toBeGreaterThan(50);
    for (const nowMs of [1_500, 2_000, 2_500]) pool.wake(nowMs);
    expect(leaseIn(pool)?.tokensSoFar).toBe(tokensSoFar);
    pass(pool, 2_500, 3_000);
    expect(leaseIn(pool)?.tokensSoFar).toBeGreaterThan(2.5 * tokensSoFar);
  });

  test("is charged nothing for the time on a replica on which requests stall", () => {
    const pool = aReadyPool({ replicaCount: 2 });
    const offer = { ...PATIENT, excludedReplicaIds: [replicaIdOf(1)] };
    for (const name of ["r", "s", "t"]) {
      pool.started(leaseOf(pool.offer(anOffer(name, offer), 0)), 0, 0);
    }
    pass(pool, 0, 1_000);
    for (const leaseId of pool.state.leases.keys()) pool.stalled(leaseId, 1_000);
    expect(pool.status(1_000).replicas[0]?.health).toBe("ejected");
    const { tokensSoFar = 0, chargedMs = 0 } = leaseIn(pool) ?? {};
    expect(tokensSoFar).toBeGreaterThan(50);
    // It goes on reporting.
    pass(pool, 1_000, 4_000);
    expect(leaseIn(pool)).toMatchObject({ tokensSoFar, chargedMs });
  });

  test("gets back at its end what it did not come to", () => {
    const share = { weight: 1, guaranteedRatio: 0.05, band: 0 };
    const [revised, other] = [running({ share }), running({ share }, { revision: false })];
    pass(revised.pool, 0, 10_000);
    pass(other.pool, 0, 10_000);
    const chargedMs = spentMsOf(revised.pool);
    for (const { pool, leaseId } of [revised, other]) {
      pool.settle(leaseId, { kind: "completed", outputTokens: 800, decodeMs: 8_000 }, 10_000);
    }
    expect(spentMsOf(revised.pool)).toBeLessThan(chargedMs);
    // Whatever was charged in between, in the end it is what it cost.
    expect(spentMsOf(other.pool)).toBeGreaterThan(0);
    expect(spentMsOf(revised.pool)).toBeCloseTo(spentMsOf(other.pool), 6);
  });

  test("is charged at its end where its tenant is guaranteed nothing", () => {
    const { pool } = running({ share: NO_GUARANTEE });
    pass(pool, 0, 10_000);
    const { costMs, chargedMs } = leaseIn(pool) ?? {};
    expect(chargedMs).toBe(costMs);
  });

  test("is charged no more than its limit allows", () => {
    const { pool } = running({ outputTokensMax: 5 });
    pass(pool, 0, 10_000);
    const { costMs, chargedMs } = leaseIn(pool) ?? {};
    expect(chargedMs).toBeLessThan(2 * (costMs ?? 0));
  });
});

describe("a tenant whose answers grow long", () => {
  test("is believed to send long ones before the first of them has ended", () => {
    expect(nextTokens({ revision: false })).toBeLessThan(15);
    expect(nextTokens({})).toBeGreaterThan(50);
  });
});
