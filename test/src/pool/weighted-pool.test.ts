import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { seededRandom } from "../../../src/base/random.ts";
import type { Pool } from "../../../src/pool/pool.ts";
import type { LeaseId } from "../../../src/protocol/ids.ts";
import type { LivePool } from "../../../src/tenants/live-configuration.ts";
import type { Offer } from "../../../src/pool/offer.ts";
import {
  aLivePool,
  anOffer,
  aPool,
  aReadyPool,
  firstTokenWithin,
  only,
} from "../../support/pool-builders.ts";
import { aReport, replicaIdOf } from "../../support/replica-builders.ts";

const PATIENT: Partial<Offer> = { targets: firstTokenWithin(30_000), isStreamed: false };

/** The configuration of replicas with these weights; `undefined`: none is given. */
function ofWeights(
  weights: readonly (number | undefined)[],
  change: Partial<LivePool> = {},
): LivePool {
  const configuration = aLivePool(weights.length);
  const replicas = configuration.replicas.map((replica, index) => {
    const weight = weights[index];
    return { ...replica, ...(weight !== undefined && { weight }) };
  });
  return { ...configuration, engine: "openai", ...change, replicas };
}

function aWeightedPool(weights: readonly (number | undefined)[], change: Partial<LivePool> = {}) {
  const pool = aPool();
  pool.configure(ofWeights(weights, change), 0);
  return pool;
}

/** How many requests each of the replicas gets of a row of them, of which so many run at once. */
function shares(pool: Pool, replicaCount: number, requests: number, atOnce: number, tookMs = 50) {
  const counts = Array.from({ length: replicaCount }, () => 0);
  const running: LeaseId[] = [];
  for (let request = 0; request < requests; request++) {
    const nowMs = request * 10;
    if (running.length === atOnce) {
      const ended = running.shift();
      if (ended === undefined) throw new Error("One runs");
      pool.started(ended, tookMs / 2, nowMs);
      pool.settle(ended, { kind: "completed", outputTokens: 20, decodeMs: tookMs / 2 }, nowMs);
    }
    const [sent] = only("dispatch", pool.offer(anOffer(`request-${request}`, PATIENT), nowMs));
    if (sent === undefined) throw new Error("There is room");
    running.push(sent.leaseId);
    const index = counts.findIndex((_, at) => replicaIdOf(at) === sent.dispatch.replicaId);
    counts[index] = (counts[index] ?? 0) + 1;
  }
  pool.checkInvariants();
  return counts;
}

describe("a pool whose replicas have weights", () => {
  test("gives servers that tell nothing their parts by weight, however many requests run at once", () => {
    fc.assert(
      fc.property(
        fc.array(fc.integer({ min: 1, max: 10 }), { minLength: 2, maxLength: 5 }),
        fc.constantFrom(1, 2, 3, 8, 40),
        (weights, atOnce) => {
          fc.pre(new Set(weights).size > 1);
          const sum = weights.reduce((total, weight) => total + weight, 0);
          const counts = shares(aWeightedPool(weights), weights.length, 150, atOnce);
          for (const [index, weight] of weights.entries()) {
            const fair = (150 * weight) / sum;
            expect(Math.abs((counts[index] ?? 0) - fair)).toBeLessThanOrEqual(4 + 0.04 * 150);
          }
        },
      ),
      { numRuns: 10 },
    );
  });

  test("gives one without a weight the part of weight 1", () => {
    const counts = shares(aWeightedPool([3, undefined]), 2, 200, 1);
    expect(Math.abs((counts[0] ?? 0) - 150)).toBeLessThanOrEqual(5);
  });

  test("decides as ever where all weights are the same", () => {
    const alike = shares(aWeightedPool([7, 7, 7]), 3, 120, 4);
    expect(alike).toEqual(shares(aWeightedPool([undefined, undefined, undefined]), 3, 120, 4));
  });

  test("keeps its parts whatever it learns of how fast they are, as long as no target is at risk", () => {
    const counts = shares(aWeightedPool([1, 2]), 2, 300, 6, 400);
    expect(Math.abs((counts[1] ?? 0) - 200)).toBeLessThanOrEqual(16);
  });

  test("sends nothing where it could not be in time, whatever its weight", () => {
    const pool = aReadyPool({ replicaCount: 2 });
    pool.configure(ofWeights([100, 1], { engine: "sluice" }), 0);
    pool.report(replicaIdOf(0), aReport(2, { queuedUncachedTokens: 100_000 }), 0);
    pool.report(replicaIdOf(1), aReport(2), 0);
    for (const name of ["a", "b", "c"]) {
      const [sent] = only("dispatch", pool.offer(anOffer(name), 1));
      expect(sent?.dispatch.replicaId).toBe(replicaIdOf(1));
    }
  });

  test("gives no more at once to any than its part and a quarter", () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 9 }), fc.integer({ min: 0, max: 1e6 }), (weight, s) => {
        const pool = aWeightedPool([1, weight + 1]);
        const random = seededRandom(s);
        const running: LeaseId[] = [];
        for (let request = 0; request < 120; request++) {
          const [sent] = only("dispatch", pool.offer(anOffer(`r-${request}`, PATIENT), request));
          if (sent === undefined) throw new Error("There is room");
          const { replicas } = pool.status(request);
          const heavy = replicas[1]?.outstanding ?? 0;
          const light = replicas[0]?.outstanding ?? 0;
          const total = heavy + light;
          // Who has just got one was below its ceiling; the other may have been above it since others ended.
          const [had, part] =
            sent.dispatch.replicaId === replicaIdOf(1)
              ? [heavy, (weight + 1) / (weight + 2)]
              : [light, 1 / (weight + 2)];
          expect(had).toBeLessThanOrEqual(Math.ceil(1.25 * total * part));
          running.push(sent.leaseId);
          if (random() < 0.5) {
            const [ended] = running.splice(Math.floor(random() * running.length), 1);
            if (ended !== undefined) pool.settle(ended, { kind: "completed" }, request);
          }
        }
      }),
      { numRuns: 10 },
    );
  });

  test("follows another weight at once, without making up for what was", () => {
    const pool = aWeightedPool([1, 9]);
    shares(pool, 2, 100, 1);
    pool.configure(ofWeights([9, 1]), 2_000);
    let count = 0;
    for (let request = 0; request < 100; request++) {
      const nowMs = 2_000 + request;
      const [sent] = only("dispatch", pool.offer(anOffer(`later-${request}`, PATIENT), nowMs));
      if (sent === undefined) throw new Error("There is room");
      if (sent.dispatch.replicaId === replicaIdOf(0)) count += 1;
      pool.settle(sent.leaseId, { kind: "completed" }, nowMs);
    }
    expect(Math.abs(count - 90)).toBeLessThanOrEqual(5);
  });
});
