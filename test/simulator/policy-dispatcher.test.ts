import { expect, test } from "vitest";
import { runExperiment } from "../../simulator/experiment.ts";
import { DeadlineQueue } from "../../simulator/policies/deadline-queue.ts";
import { smallPool, THREE_TENANTS } from "../../simulator/promises/small-pool.ts";
import type { RequestRecord } from "../../simulator/request-record.ts";
import { steady } from "../../simulator/workloads/scenarios.ts";

test("a policy with a queue keeps its limit, and everybody who waits ends once", () => {
  const { profiles, basis } = smallPool(2);
  const records: RequestRecord[] = [];
  const { simulation, scorecard } = runExperiment({
    seed: 1,
    profiles,
    workload: steady(basis, { loadRatio: 1.6, profiles: THREE_TENANTS }),
    warmUpMs: 0,
    measuredMs: 3_000,
    clients: { retry: "never", retriesMax: 0, leavesRatio: 0.2, leavesAfterMsMax: 2_000 },
    createPolicy: () => new DeadlineQueue({ outstandingMax: 6 }),
    onRecord: (record) => records.push(record),
  });
  simulation.gateway.dispatcher.checkInvariants();
  expect(simulation.gateway.openCalls).toBe(0);
  expect(records).toHaveLength(scorecard.total.counts.offered);
  // Nothing is dropped, and far more waits than is served.
  expect(records.filter(({ verdict }) => verdict === "refused")).toEqual([]);
  const waits = records.map(({ timeline }) => timeline.queuedMs);
  expect(Math.max(...waits)).toBeGreaterThan(1_000);
});
