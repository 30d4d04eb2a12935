import { describe, expect, test } from "vitest";
import type { Replica } from "../../../src/replicas/replica.ts";
import { ReplicaSet } from "../../../src/replicas/replica-set.ts";
import {
  aHello,
  aLivePool,
  aReport,
  EPOCH,
  replicaIdOf,
  urlOf,
} from "../../support/pool-builders.ts";

function aReplicaSet(replicaCount: number, replicasMax = 8): ReplicaSet {
  const replicas = new ReplicaSet(replicasMax);
  replicas.configure(aLivePool(replicaCount).replicas);
  return replicas;
}

function makeReady(replica: Replica | undefined, index: number): Replica {
  if (replica === undefined) throw new Error(`Replica ${index} is not in the set`);
  replica.connect(aHello(index));
  replica.report(aReport(1), { epoch: EPOCH, nowMs: 0 });
  return replica;
}

describe("ReplicaSet", () => {
  test("replicas beyond the bound are not used", () => {
    const replicas = aReplicaSet(4, 3);
    expect([...replicas]).toHaveLength(3);
    expect(replicas.at(urlOf(3))).toBeUndefined();
    replicas.checkInvariants();
  });

  test("a replica that leaves the configuration is forgotten at once when nothing runs there", () => {
    const replicas = aReplicaSet(2);
    replicas.configure(aLivePool(1).replicas);
    expect(replicas.get(replicaIdOf(1))).toBeUndefined();
  });

  test("a replica that leaves the configuration stays until its last request has ended", () => {
    const replicas = aReplicaSet(2);
    const replica = makeReady(replicas.at(urlOf(1)), 1);
    const dispatchNumber = 1;
    replica.take({ dispatchNumber, promptTokens: 10 });
    replicas.configure(aLivePool(1).replicas);
    expect(replicas.at(urlOf(1))).toBeUndefined();
    expect(replicas.get(replicaIdOf(1))).toBe(replica);
    replicas.release({ replicaId: replicaIdOf(1), dispatchNumber });
    expect(replicas.get(replicaIdOf(1))).toBeUndefined();
    replicas.checkInvariants();
  });

  test("a replica that comes back into the configuration keeps what runs there", () => {
    const replicas = aReplicaSet(2);
    makeReady(replicas.at(urlOf(1)), 1).take({ dispatchNumber: 1, promptTokens: 10 });
    replicas.configure(aLivePool(1).replicas);
    replicas.configure(aLivePool(2).replicas);
    expect(replicas.at(urlOf(1))?.outstanding).toBe(1);
    replicas.checkInvariants();
  });

  test("only a ready replica has slots to give", () => {
    const replicas = aReplicaSet(1);
    expect(replicas.openAt(0)).toEqual([]);
    const replica = makeReady(replicas.at(urlOf(0)), 0);
    expect(replicas.openAt(0)).toEqual([replica]);
    for (const dispatchNumber of [1, 2, 3, 4]) replica.take({ dispatchNumber, promptTokens: 1 });
    expect(replicas.openAt(0)).toEqual([]);
  });

  test("what all ready replicas release is the sum of what each does", () => {
    const replicas = aReplicaSet(3);
    expect(replicas.releasesPerMs(0)).toBe(0);
    makeReady(replicas.at(urlOf(0)), 0).learnHold(1000, 0);
    makeReady(replicas.at(urlOf(1)), 1).learnHold(4000, 0);
    expect(replicas.releasesPerMs(0)).toBeCloseTo(4 / 1000 + 4 / 4000, 12);
  });
});
