import { expect, test } from "vitest";
import { ReplicaId } from "../../src/protocol/ids.ts";
import type { ReplicaReport } from "../../src/protocol/engine-api.ts";
import type { VerdictListener } from "../../simulator/dispatcher.ts";
import { runExperiment } from "../../simulator/experiment.ts";
import { DeadlineOrder } from "../../simulator/policies/deadline-order.ts";
import { GatewayQueue } from "../../simulator/policies/gateway-queue.ts";
import { smallPool, THREE_TENANTS } from "../../simulator/promises/small-pool.ts";
import type { PolicyReplica } from "../../simulator/policies/policy.ts";
import { PolicyDispatcher } from "../../simulator/policy-dispatcher.ts";
import type { RequestRecord } from "../../simulator/request-record.ts";
import { steady } from "../../simulator/workloads/scenarios.ts";
import { World } from "../../simulator/world.ts";
import { anOffer } from "../support/pool-builders.ts";
import { aHello, aReport } from "../support/replica-builders.ts";

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
    createPolicy: () => new GatewayQueue(new DeadlineOrder(), { outstandingMax: 6 }),
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

const NOBODY: VerdictListener = {
  dispatched: () => undefined,
  hedged: () => undefined,
  hopeless: () => undefined,
  rejected: () => undefined,
  displaced: () => undefined,
  askPrefixes: () => undefined,
  forgotten: () => undefined,
};

test("a report that a newer one has overtaken is not taken, unless the replica is another one since", () => {
  const seen: (readonly PolicyReplica[])[] = [];
  const policy = {
    choose: (_request: unknown, replicas: readonly PolicyReplica[]) => {
      seen.push(replicas);
      return { kind: "reject" as const };
    },
  };
  const dispatcher = new PolicyDispatcher(policy, new World(1), NOBODY);
  const hello = aHello(1);
  const replicaId = ReplicaId.parse(hello.endpointUrl);
  const queuedAfter = (told: ReplicaReport) => {
    dispatcher.reported(replicaId, told);
    dispatcher.offer(anOffer(`r${seen.length}`));
    return seen.at(-1)?.[0]?.queuedRequests;
  };
  dispatcher.connected(hello);
  expect(queuedAfter(aReport(2, { queuedRequests: 7 }))).toBe(7);
  expect(queuedAfter(aReport(1, { queuedRequests: 3 }))).toBe(7);
  dispatcher.disconnected(replicaId);
  dispatcher.connected(hello);
  expect(queuedAfter(aReport(1, { queuedRequests: 3 }))).toBe(3);
});
