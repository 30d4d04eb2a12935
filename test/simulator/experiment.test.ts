import { assert, describe, expect, test } from "vitest";
import { nominalRate } from "../../src/pool/capacity.ts";
import type { ReplicaReport } from "../../src/protocol/engine-api.ts";
import type { DispatchWatch } from "../../simulator/dispatcher.ts";
import type { RequestRecord } from "../../simulator/request-record.ts";
import { loadBasisOf, runExperiment } from "../../simulator/experiment.ts";
import type { ExperimentOptions } from "../../simulator/experiment.ts";
import { LLAMA_70B_H100_TP8, LLAMA_8B_H200, slowed } from "../../simulator/hardware-profile.ts";
import { LeastOutstanding } from "../../simulator/policies/load-balancers.ts";
import type { Policy } from "../../simulator/policies/policy.ts";
import { BalanceWatch } from "../../simulator/promises/balance-watch.ts";
import { speedOf } from "../../simulator/reference-cost.ts";
import { steady } from "../../simulator/workloads/scenarios.ts";

const PROFILES = [LLAMA_8B_H200];
const BASIS = loadBasisOf(PROFILES);

function run(change: Partial<ExperimentOptions> = {}) {
  const records: RequestRecord[] = [];
  const { scorecard, simulation } = runExperiment({
    seed: 1,
    profiles: PROFILES,
    workload: steady(BASIS, { loadRatio: 0.5 }),
    createPolicy: () => new LeastOutstanding(),
    warmUpMs: 2_000,
    measuredMs: 6_000,
    onRecord: (record) => records.push(record),
    ...change,
  });
  return { scorecard, simulation, records };
}

const REJECTING: Policy = { choose: () => ({ kind: "reject" }) };

function endsOf(seed: number): number[] {
  return run({ seed }).records.map(({ endedAtMs }) => endedAtMs);
}

function specsOf(change: Partial<ExperimentOptions>) {
  return run(change)
    .records.map(({ spec }) => spec)
    .toSorted((a, b) => a.atMs - b.atMs || a.promptTokens - b.promptTokens);
}

/** What the first report of a run tells. */
function toldFirst(toldStepRatio: number) {
  const reports: ReplicaReport[] = [];
  const createWatch = (): DispatchWatch => ({
    listener: (listener) => listener,
    dispatcher: (dispatcher) => {
      const reported = dispatcher.reported.bind(dispatcher);
      dispatcher.reported = (replicaId, report) => {
        reports.push(report);
        reported(replicaId, report);
      };
      return dispatcher;
    },
  });
  run({ toldStepRatio, createWatch, measuredMs: 1_000 });
  const [first] = reports;
  assert(first !== undefined, "a replica reports");
  const { step, stepMs, speedRatio } = first;
  return { step: Object.values(step), stepMs, speedRatio };
}

describe("runExperiment()", () => {
  test("what replicas tell of their steps can be wrong, while what they measure is not", () => {
    const [right, wrong] = [toldFirst(1), toldFirst(2)];
    expect(wrong.step).toEqual(right.step.map((part) => 2 * part));
    expect({ ...wrong, step: 0 }).toEqual({ ...right, step: 0 });
  });

  test("every request ends once, and half of what a replica can do is done in time", () => {
    const { scorecard, simulation, records } = run();
    expect(new Set(records.map(({ spec }) => spec)).size).toBe(records.length);
    expect(simulation.gateway.openCalls).toBe(0);
    simulation.checkInvariants();
    expect(scorecard.total.counts.offered).toBeGreaterThan(40);
    expect(scorecard.total.goodput.offeredGoodRatio).toBeGreaterThan(0.9);
  });

  test("one seed gives one result, and another seed another", () => {
    expect(endsOf(3)).toEqual(endsOf(3));
    expect(endsOf(3)).not.toEqual(endsOf(4));
  });

  test("two policies see the same requests at the same instants", () => {
    expect(specsOf({ createPolicy: () => REJECTING })).toEqual(specsOf({}));
  });

  test("a slow machine counts for less of a pool's capacity", () => {
    const mixed = loadBasisOf([LLAMA_8B_H200, slowed(LLAMA_8B_H200, 2)]);
    expect(mixed.capacityPerSecond).toBeCloseTo(1.5 * BASIS.capacityPerSecond);
  });

  test("a machine of another make counts for what it does of an ordinary request, whichever comes first", () => {
    const mixed = loadBasisOf([LLAMA_70B_H100_TP8, LLAMA_8B_H200]);
    const rates = [LLAMA_8B_H200, LLAMA_70B_H100_TP8].map((profile) =>
      nominalRate(speedOf(profile)),
    );
    const [fast = NaN, large = NaN] = rates;
    expect(mixed.capacityPerSecond).toBeCloseTo(1000 * (1 + large / fast));
    const size = { promptTokens: 500, prefixTokens: 0, outputTokens: 100 };
    expect(mixed.price(size)).toBe(BASIS.price(size));
  });

  test("a watch sees every verdict of a run, and what is settled", () => {
    const watch = new BalanceWatch(1);
    const { records } = run({ createWatch: () => watch });
    expect(watch.dispatches).toBe(records.reduce((sum, { dispatches }) => sum + dispatches, 0));
    expect(watch.aboveCeiling).toBe(0);
  });

  test("a replica that dies fails its requests, and what comes after it is back is served", () => {
    const { records } = run({
      faults: [{ kind: "restarted", replicaIndex: 0, atMs: 3_000, forMs: 500 }],
    });
    const failed = records.filter(({ attainment }) => attainment.missed.includes("failed"));
    expect(failed.length).toBeGreaterThan(0);
    expect(Math.max(...failed.map(({ arrivedAtMs }) => arrivedAtMs))).toBeLessThan(3_600);
    const later = records.filter(({ arrivedAtMs }) => arrivedAtMs > 3_600);
    expect(new Set(later.map(({ verdict }) => verdict))).toEqual(new Set(["admitted"]));
  });

  test("the real core refuses what cannot be in time, and keeps what it admits", () => {
    const { scorecard } = runExperiment({
      seed: 1,
      profiles: PROFILES,
      workload: steady(BASIS, { loadRatio: 3 }),
      // A pool that begins at three times its load has first to see that its answers come slower.
      warmUpMs: 10_000,
      measuredMs: 4_000,
    });
    const { counts, goodput } = scorecard.total;
    expect(counts.rejectedInProfile + counts.rejectedOutOfProfile).toBeGreaterThan(0);
    expect(goodput.admittedAttainmentRatio).toBeGreaterThan(0.95);
  });
});
