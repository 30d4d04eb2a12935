import { describe, expect, test } from "vitest";
import { seededRandom } from "../../../src/base/random.ts";
import type { ReplicaPick } from "../../../src/pool/pick-replica.ts";
import { pickReplica } from "../../../src/pool/pick-replica.ts";
import type { ReplicaHello, ReplicaReport } from "../../../src/protocol/engine-api.ts";
import { REPORT_AGE_MS_MAX, Replica } from "../../../src/replicas/replica.ts";
import { aHello, aReport, EPOCH, replicaIdOf, urlOf } from "../../support/pool-builders.ts";

function aReplica(
  index: number,
  report: Partial<ReplicaReport> = {},
  hello: Partial<ReplicaHello> = {},
): Replica {
  const replica = new Replica({ replicaId: replicaIdOf(index), endpointUrl: urlOf(index) });
  replica.connect(aHello(index, hello));
  replica.report(aReport(1, report), { epoch: EPOCH, nowMs: 0 });
  return replica;
}

function pickFrom(
  replicas: readonly Replica[],
  change: { excluded?: number[]; budgetMs?: number; nowMs?: number } = {},
): ReplicaPick {
  const request = {
    excludedReplicaIds: (change.excluded ?? []).map(replicaIdOf),
    promptTokens: 100,
    budgetMs: change.budgetMs ?? 1000,
  };
  return pickReplica(request, { replicas, nowMs: change.nowMs ?? 0, random: seededRandom(1) });
}

function pickedUrl(pick: ReplicaPick): string | undefined {
  return pick.kind === "picked" ? pick.replica.endpointUrl : undefined;
}

describe("pickReplica()", () => {
  test("the least predicted wait wins", () => {
    const replicas = [
      aReplica(0, { queuedUncachedTokens: 300 }),
      aReplica(1, { queuedUncachedTokens: 100 }),
      aReplica(2, { queuedUncachedTokens: 200 }),
    ];
    expect(pickFrom(replicas)).toMatchObject({ kind: "picked", predictedWaitMs: 210 });
    expect(pickedUrl(pickFrom(replicas))).toBe(urlOf(1));
  });

  test("a faster replica wins over a shorter queue", () => {
    const slow = aReplica(0, { prefillTokensPerSecond: 200 });
    const fast = aReplica(1, { prefillTokensPerSecond: 2000, queuedUncachedTokens: 200 });
    expect(pickedUrl(pickFrom([slow, fast]))).toBe(urlOf(1));
  });

  test("of forecasts less than a step apart the less loaded replica wins", () => {
    const busy = aReplica(0, { runningRequests: 3 });
    const idle = aReplica(1, { queuedUncachedTokens: 9 });
    expect(pickedUrl(pickFrom([busy, idle]))).toBe(urlOf(1));
  });

  test("a forecast that is more than a step better wins, however loaded its replica", () => {
    const busy = aReplica(0, { runningRequests: 3 });
    const idle = aReplica(1, { queuedUncachedTokens: 11 });
    expect(pickedUrl(pickFrom([busy, idle]))).toBe(urlOf(0));
  });

  test("load counts by what a replica can run, not by the number of its requests", () => {
    const small = aReplica(0, { runningRequests: 2 }, { sequencesMax: 4 });
    const large = aReplica(1, { runningRequests: 3 }, { sequencesMax: 64 });
    expect(pickedUrl(pickFrom([small, large]))).toBe(urlOf(1));
  });

  test("equal replicas are drawn at random, each about as often", () => {
    const replicas = [aReplica(0), aReplica(1), aReplica(2)];
    const random = seededRandom(7);
    const request = { excludedReplicaIds: [], promptTokens: 1, budgetMs: 1000 };
    const counts = new Map<string, number>();
    for (let draw = 0; draw < 3000; draw += 1) {
      const url = pickedUrl(pickReplica(request, { replicas, nowMs: 0, random })) ?? "none";
      counts.set(url, (counts.get(url) ?? 0) + 1);
    }
    expect([...counts.keys()].toSorted()).toEqual([urlOf(0), urlOf(1), urlOf(2)]);
    for (const count of counts.values()) expect(Math.abs(count - 1000)).toBeLessThan(150);
  });

  test("replicas that are silent, draining, gone or excluded are not asked", () => {
    const gone = aReplica(1);
    gone.disconnect();
    const removed = aReplica(2);
    removed.remove();
    const replicas = [aReplica(0, { draining: true }), gone, removed, aReplica(3)];
    expect(pickFrom(replicas, { excluded: [3] }).kind).toBe("none");
    expect(pickFrom(replicas, { nowMs: REPORT_AGE_MS_MAX + 1 }).kind).toBe("none");
    expect(pickedUrl(pickFrom(replicas))).toBe(urlOf(3));
  });

  test("when even the best forecast is too late, the pick says by how much it would be", () => {
    const replicas = [aReplica(0, { queuedUncachedTokens: 500 }), aReplica(1)];
    expect(pickFrom(replicas, { budgetMs: 109 })).toEqual({
      kind: "infeasible",
      predictedWaitMs: 110,
    });
    expect(pickFrom(replicas, { budgetMs: 110 }).kind).toBe("picked");
  });

  test("a budget that is spent is never met, however fast the replica", () => {
    const instant = aReplica(0, { prefillTokensPerSecond: Number.MAX_VALUE, stepMs: 0 });
    expect(pickFrom([instant], { budgetMs: 0 }).kind).toBe("infeasible");
  });

  test("a full replica that could answer in time is waited for, not a free one that could not", () => {
    const full = aReplica(0, { runningRequests: 4 });
    const slow = aReplica(1, { queuedUncachedTokens: 5000 });
    expect(pickFrom([full, slow])).toEqual({ kind: "full", predictedWaitMs: 110 });
  });

  test("a slower replica with a free slot is taken when the best is full", () => {
    const full = aReplica(0, { runningRequests: 4 });
    const slower = aReplica(1, { queuedUncachedTokens: 500 });
    expect(pickedUrl(pickFrom([full, slower]))).toBe(urlOf(1));
  });
});
