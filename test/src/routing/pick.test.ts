import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { seededRandom } from "../../../src/base/random.ts";
import { isBelowCeiling, poolLoad } from "../../../src/routing/bounded-load.ts";
import type { Candidate } from "../../../src/routing/candidate.ts";
import { PICK_DEFAULTS, pickReplica } from "../../../src/routing/pick.ts";
import { anyCandidates, candidate } from "./candidates.ts";

const seed = fc.integer({ min: 0, max: 1e6 });

function pick(candidates: readonly Candidate[], random = seededRandom(7), explorationRatio = 0) {
  return pickReplica(candidates, { ...PICK_DEFAULTS, random, explorationRatio });
}

/** How often each of the candidates is picked, by its name. */
function counts(candidates: readonly Candidate[], picks: number, explorationRatio = 0) {
  const random = seededRandom(11);
  const picked: Record<string, number> = {};
  for (const { replicaId } of candidates) picked[replicaId] = 0;
  for (let i = 0; i < picks; i++) {
    const name = pick(candidates, random, explorationRatio)?.replicaId ?? "none";
    picked[name] = (picked[name] ?? 0) + 1;
  }
  return picked;
}

describe("pickReplica", () => {
  test("picks only a feasible replica, and always one if there is one", () => {
    fc.assert(
      fc.property(anyCandidates, seed, fc.constantFrom(0, 0.01, 1), (all, s, exploration) => {
        const picked = pick(all, seededRandom(s), exploration);
        const feasible = all.filter(({ isFeasible }) => isFeasible);
        expect(picked === undefined ? feasible : feasible.includes(picked)).toEqual(
          picked === undefined ? [] : true,
        );
      }),
    );
  });

  test("picks a replica at its load ceiling only if every feasible one is at its own", () => {
    fc.assert(
      fc.property(anyCandidates, seed, fc.constantFrom(0, 0.01, 1), (all, s, exploration) => {
        const pool = poolLoad(all);
        const picked = pick(all, seededRandom(s), exploration);
        const isOneBelow = all.some((one) => one.isFeasible && isBelowCeiling(one, pool));
        if (picked?.isProbe === true) return;
        expect(picked !== undefined && isBelowCeiling(picked, pool)).toBe(isOneBelow);
      }),
    );
  });

  test("picks one that is due to be tried out, however bad it looks, but none that is not feasible", () => {
    fc.assert(
      fc.property(anyCandidates, seed, fc.constantFrom(0, 0.01, 1), (all, s, exploration) => {
        const isDue = all.some(({ isProbe, isFeasible }) => isProbe && isFeasible);
        expect(pick(all, seededRandom(s), exploration)?.isProbe ?? false).toBe(isDue);
      }),
    );
  });

  test("picks the same for the same seed, whatever else candidates carry", () => {
    fc.assert(
      fc.property(anyCandidates, seed, (all, s) => {
        const carrying = all.map((one) => ({ ...one, forecast: { ttftMs: one.ttftMs } }));
        const picked = pickReplica(carrying, { ...PICK_DEFAULTS, random: seededRandom(s) });
        const again = pickReplica(all, { ...PICK_DEFAULTS, random: seededRandom(s) });
        expect(picked?.replicaId).toBe(again?.replicaId);
      }),
    );
  });

  test("goes by turns where weights are given, but neither where a target is at risk nor where it would be more work", () => {
    const due = { turn: 1 };
    const late = candidate("late", { turn: 2 });
    expect(pick([candidate("due", { ...due, ttftMs: 900 }), late])?.replicaId).toBe("due");
    for (const worse of [
      { headroomRatio: 0.1 },
      { uncachedTokens: 400 },
      { isFeasible: false },
      { sequences: 40 },
    ]) {
      expect(pick([candidate("due", { ...due, ...worse }), late])?.replicaId).toBe("late");
    }
  });

  test("does not depend on the order of candidates where something sets them apart", () => {
    fc.assert(
      fc.property(anyCandidates, (all) => {
        const apart = all.map((one, index) => ({ ...one, reportAgeMs: 0, rendezvous: index }));
        expect(pick(apart.toReversed())?.replicaId).toBe(pick(apart)?.replicaId);
      }),
    );
  });

  test("tries out any open replica now and then, but none where it would be more work", () => {
    const cached = candidate("cached", { uncachedTokens: 50 });
    const alike = candidate("alike", { uncachedTokens: 55, ttftMs: 900 });
    const cold = candidate("cold", { uncachedTokens: 200, ttftMs: 1 });
    expect(counts([cached, alike, cold], 200, 1)).toEqual({
      cached: expect.any(Number),
      alike: expect.any(Number),
      cold: 0,
    });
  });

  test("keeps most headroom where headroom is scarce", () => {
    const tight = candidate("tight", { headroomRatio: 0.1, ttftMs: 20, sequences: 1 });
    const roomy = candidate("roomy", { headroomRatio: 0.2, ttftMs: 300, sequences: 1 });
    expect(pick([tight, roomy])).toBe(roomy);
  });

  test("keeps like with like: a request goes where it tightens no target, unless that costs more headroom", () => {
    const loose = candidate("loose", { headroomRatio: 0.29, tighteningRatio: 0.6, ttftMs: 20 });
    const alike = candidate("alike", { headroomRatio: 0.21, sequences: 1 });
    const full = candidate("full", { headroomRatio: 0.05, sequences: 1 });
    expect(pick([loose, alike])).toBe(alike);
    expect(pick([loose, full])).toBe(loose);
  });

  test("what a request would tighten counts for nothing where headroom is ample all the same", () => {
    const loose = candidate("loose", { headroomRatio: 0.9, tighteningRatio: 1, ttftMs: 20 });
    const tight = candidate("tight", { headroomRatio: 0.9, ttftMs: 100 });
    expect(pick([tight, loose])).toBe(loose);
  });

  test("sends a prompt to where its prefix is cached while no target is at risk", () => {
    const cold = candidate("cold", { headroomRatio: 0.9, ttftMs: 60 });
    // Its queue is longer: the first token comes later, but with less work for all.
    const warm = candidate("warm", {
      headroomRatio: 0.35,
      uncachedTokens: 50,
      ttftMs: 120,
      sequences: 1,
    });
    expect(pick([cold, warm, candidate("other", { ttftMs: 130, sequences: 4 })])).toBe(warm);
    expect(
      pick([
        { ...cold, headroomRatio: 0.2 },
        { ...warm, headroomRatio: 0.1 },
      ])?.replicaId,
    ).toBe(cold.replicaId);
  });

  test("takes prompts of about as much work for equal, and the earlier first token then", () => {
    const early = candidate("early", { uncachedTokens: 110, ttftMs: 60 });
    const late = candidate("late", { uncachedTokens: 100, ttftMs: 120 });
    expect(pick([early, late])).toBe(early);
  });

  test("leaves a cached prefix when its replica is at the load ceiling", () => {
    const cold = candidate("cold", { sequences: 8, ttftMs: 120 });
    const warm = candidate("warm", { sequences: 16, ttftMs: 60 });
    expect(pick([cold, warm])).toBe(cold);
  });

  test("lets requests per capacity decide between near-equals", () => {
    const some = candidate("some", {
      headroomRatio: 0.24,
      ttftMs: 99,
      sequences: 9,
      rendezvous: 9,
    });
    const fewer = candidate("fewer", { headroomRatio: 0.2, ttftMs: 100, sequences: 8 });
    const small = candidate("small", { headroomRatio: 0.2, sequences: 2, capacity: 8 });
    expect(pick([some, fewer, small])).toBe(fewer);
  });

  test("gives an idle pool's requests to the replica with more capacity", () => {
    const small = candidate("small", { capacity: 16, rendezvous: 9 });
    const large = candidate("large", { capacity: 64 });
    expect(pick([small, large])).toBe(large);
  });

  test("lets the route decide between equals", () => {
    const all = [3, 8, 5].map((rendezvous) => candidate(`r${rendezvous}`, { rendezvous }));
    expect(pick(all)).toBe(all[1]);
  });

  test("lets chance decide where nothing else does", () => {
    const all = ["a", "b", "c", "d"].map((name) => candidate(name));
    for (const count of Object.values(counts(all, 4_000))) expect(count).toBeGreaterThan(850);
  });

  test("tries each open replica now and then, and none that is not open", () => {
    const best = candidate("best", { headroomRatio: 0.3 });
    const second = candidate("second", { headroomRatio: 0.2 });
    const third = candidate("third", { headroomRatio: 0.1 });
    const infeasible = candidate("infeasible", { isFeasible: false });
    const crowded = candidate("crowded", { sequences: 40 });
    const picked = counts([best, second, third, infeasible, crowded], 10_000, 0.03);
    // A third of 3 % each: 100, with a standard deviation of 10.
    for (const name of ["second", "third"]) {
      expect(picked[name]).toBeGreaterThan(55);
      expect(picked[name]).toBeLessThan(145);
    }
    expect(picked).toMatchObject({ infeasible: 0, crowded: 0 });
  });

  test("picks the better of two on old news: the k-th best of n has (n - k) in n(n - 1)/2", () => {
    const all = Array.from({ length: 8 }, (_, index) =>
      candidate(`r${index}`, { headroomRatio: 0.3 - 0.06 * index, reportAgeMs: 1_500 }),
    );
    const picked = counts(all, 28_000);
    for (const [index, count] of Object.values(picked).entries()) {
      expect(Math.abs(count - 1_000 * (7 - index))).toBeLessThan(250);
    }
  });

  test("trusts fresh news of the best replica, however old those of the others are", () => {
    const fresh = candidate("fresh", { headroomRatio: 0.3 });
    const stale = candidate("stale", { headroomRatio: 0.2, reportAgeMs: 1_900 });
    expect(counts([stale, fresh], 200)).toEqual({ stale: 0, fresh: 200 });
  });

  test("fills a replica that returns step by step", () => {
    for (const capacityRatio of [0.1, 0.4, 0.7, 1]) {
      const loads = dealOut(2_000, capacityRatio);
      const share = (loads[3] ?? 0) / 2_000;
      const allowed = capacityRatio / (3 + capacityRatio);
      expect(share).toBeLessThanOrEqual(1.25 * allowed + 0.001);
      expect(share).toBeGreaterThan(0.9 * allowed);
    }
  });
});

/** Sends requests that never end to four replicas, of which the last has returned, idle and alluring. */
function dealOut(requests: number, capacityRatio: number): number[] {
  const random = seededRandom(5);
  const loads = [0, 0, 0, 0];
  for (let i = 0; i < requests; i++) {
    const all = loads.map((sequences, index) =>
      candidate(`${index}`, {
        sequences,
        headroomRatio: index === 3 ? 0.3 : 0.1,
        capacityRatio: index === 3 ? capacityRatio : 1,
      }),
    );
    const index = Number(pick(all, random)?.replicaId);
    loads[index] = (loads[index] ?? 0) + 1;
  }
  return loads;
}
