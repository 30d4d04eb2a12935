import { describe, expect, test } from "vitest";
import { copyState } from "../../../src/base/plain-state.ts";
import { ChainNames } from "../../../src/replicas/chain-names.ts";
import { HEALTH_OPTIONS } from "../../../src/replicas/health.ts";
import type { Replica } from "../../../src/replicas/replica.ts";
import { ReplicaSet } from "../../../src/replicas/replica-set.ts";
import { chainOfText } from "../../support/prompt-chains.ts";
import {
  aHello,
  aReport,
  aSentRequest,
  EPOCH,
  replicaIdOf,
  settingsOf,
  urlOf,
} from "../../support/replica-builders.ts";

const settingsOfAll = (count: number) =>
  Array.from({ length: count }, (_, index) => settingsOf(index));

function aReplicaSet(replicaCount: number, replicasMax = 8): ReplicaSet {
  const replicas = new ReplicaSet({ replicasMax });
  replicas.configure(settingsOfAll(replicaCount));
  return replicas;
}

function makeReady(replicas: ReplicaSet, index: number): Replica {
  const replica = replicas.at(urlOf(index));
  if (replica === undefined) throw new Error(`Replica ${index} is not in the set`);
  replica.connect(aHello(index), 0);
  replica.report(aReport(1), { epoch: EPOCH, nowMs: 0 });
  return replica;
}

function aReadySet(replicaCount: number): ReplicaSet {
  const replicas = aReplicaSet(replicaCount);
  for (let index = 0; index < replicaCount; index++) makeReady(replicas, index);
  return replicas;
}

const placeOf = (index: number, dispatchNumber = 1) => ({
  replicaId: replicaIdOf(index),
  dispatchNumber,
});

/** Lets requests fail on a replica until it is ejected, or would be. */
function fail(replicas: ReplicaSet, index: number, nowMs = 0): boolean {
  for (let count = 1; count <= HEALTH_OPTIONS.ejectAfter; count++) {
    replicas.failed(placeOf(index, count), nowMs);
  }
  return replicas.get(replicaIdOf(index))?.health.isEjected ?? false;
}

describe("the configuration of a ReplicaSet", () => {
  test("replicas beyond the bound are not used", () => {
    const replicas = aReplicaSet(4, 3);
    expect([...replicas]).toHaveLength(3);
    expect(replicas.at(urlOf(3))).toBeUndefined();
    replicas.checkInvariants();
  });

  test("a replica that leaves the configuration is forgotten at once when nothing runs there", () => {
    const replicas = aReplicaSet(2);
    replicas.configure(settingsOfAll(1));
    expect(replicas.get(replicaIdOf(1))).toBeUndefined();
    replicas.checkInvariants();
  });

  test("a replica that leaves the configuration stays until its last request has ended", () => {
    const replicas = aReplicaSet(2);
    const replica = makeReady(replicas, 1);
    replica.take(aSentRequest(1), 0);
    replicas.configure(settingsOfAll(1));
    expect(replicas.at(urlOf(1))).toBeUndefined();
    expect(replicas.get(replicaIdOf(1))).toBe(replica);
    replicas.checkInvariants();
    replicas.release(placeOf(1));
    expect(replicas.get(replicaIdOf(1))).toBeUndefined();
    replicas.checkInvariants();
  });

  test("what a replica has cached is forgotten as soon as it leaves, though it stays for what runs", () => {
    const replicas = aReplicaSet(2);
    const replica = makeReady(replicas, 1);
    replica.take(aSentRequest(1), 0);
    replica.prefixes.note(chainOfText("abc"), { isForeign: false, nowMs: 0 });
    const hit = () => replica.prefixes.hitRatio(new ChainNames(chainOfText("abc")), 0);
    expect(hit()).toBeGreaterThan(0);
    replicas.configure(settingsOfAll(1));
    expect(replicas.get(replicaIdOf(1))).toBe(replica);
    expect(hit()).toBe(0);
    expect(replica.prefixes.state.keys.size).toBe(0);
  });

  test("a replica that comes back into the configuration keeps what runs there", () => {
    const replicas = aReplicaSet(2);
    makeReady(replicas, 1).take(aSentRequest(1), 0);
    replicas.configure(settingsOfAll(1));
    replicas.configure(settingsOfAll(2));
    expect(replicas.at(urlOf(1))?.outstanding).toBe(1);
    replicas.checkInvariants();
  });

  test("a request whose lease is gone is noticed", () => {
    const replicas = aReplicaSet(1);
    makeReady(replicas, 0).take(aSentRequest(1), 0);
    expect(() => replicas.checkInvariants(() => false)).toThrow("with the end of its lease");
  });
});

describe("ejection from a ReplicaSet", () => {
  test("a replica that fails is ejected while others are well", () => {
    const replicas = aReadySet(3);
    expect(fail(replicas, 0)).toBe(true);
    expect(replicas.get(replicaIdOf(0))?.factsAt(0).isEjected).toBe(true);
    expect(replicas.ejectedRatio).toBeCloseTo(1 / 3);
  });

  test("no more than half of the replicas are ejected at once", () => {
    const replicas = aReadySet(4);
    expect([0, 1, 2, 3].map((index) => fail(replicas, index))).toEqual([true, true, false, false]);
  });

  test("the only replica stays in use whatever fails there", () => {
    expect(fail(aReadySet(1), 0)).toBe(false);
  });

  test("the last that is ready stays in use, however many are configured", () => {
    const replicas = aReplicaSet(4);
    makeReady(replicas, 0);
    expect(fail(replicas, 0)).toBe(false);
  });

  test("stalls of different requests eject as failures do", () => {
    const replicas = aReadySet(2);
    for (const number of [1, 2, 3]) replicas.stalled(placeOf(0, number), number);
    expect(replicas.get(replicaIdOf(0))?.health.isEjected).toBe(true);
  });

  test("a probe that goes well brings a replica back", () => {
    const replicas = aReadySet(2);
    fail(replicas, 0);
    const { health } = replicas.at(urlOf(0)) ?? {};
    health?.dispatched(9, HEALTH_OPTIONS.cooldownMs);
    replicas.succeeded(placeOf(0, 9), HEALTH_OPTIONS.cooldownMs);
    expect(replicas.ejectedRatio).toBe(0);
  });

  test("an ejected replica is probed at once when no other is ready any more", () => {
    const replicas = aReadySet(2);
    fail(replicas, 0);
    replicas.probeIfNoneIsWell(1);
    expect(replicas.at(urlOf(0))?.health.canTake(1)).toBe(false);
    replicas.at(urlOf(1))?.disconnect();
    replicas.probeIfNoneIsWell(1);
    expect(replicas.at(urlOf(0))?.health.canTake(1)).toBe(true);
  });

  test("news of a replica that is gone changes nothing", () => {
    const replicas = aReadySet(1);
    replicas.failed(placeOf(7), 0);
    replicas.stalled(placeOf(7), 0);
    replicas.succeeded(placeOf(7), 0);
    expect([...replicas].map(({ health }) => health.statusAt(0))).toEqual(["healthy"]);
  });
});

const seenBy = (one: ReplicaSet) => [...one].map((replica) => replica.factsAt(0));

test("a copy of a set's state goes on as the set does", () => {
  const replicas = aReadySet(3);
  replicas.at(urlOf(1))?.take(aSentRequest(1), 0);
  replicas.configure(settingsOfAll(1));
  const revived = new ReplicaSet({ replicasMax: 8 }, copyState(replicas.state));
  for (const one of [replicas, revived]) {
    one.checkInvariants();
    one.release(placeOf(1));
    one.configure(settingsOfAll(3));
    makeReady(one, 1);
    fail(one, 0);
  }
  expect(seenBy(revived)).toEqual(seenBy(replicas));
  expect(revived.ejectedRatio).toBe(replicas.ejectedRatio);
});
