import { describe, expect, test } from "vitest";
import { OutputLengths } from "../../../src/forecast/output-lengths.ts";
import { toPoolRequest } from "../../../src/pool/intake.ts";
import type { Offer } from "../../../src/pool/offer.ts";
import { cachedTokensOn, noteLeastWork, waitForPrefix } from "../../../src/pool/prefix-wait.ts";
import { TokenEstimate } from "../../../src/pool/token-estimate.ts";
import { Replica } from "../../../src/replicas/replica.ts";
import { anOffer, firstTokenWithin } from "../../support/pool-builders.ts";
import {
  aHello,
  aReport,
  aSentRequest,
  EPOCH,
  replicaIdOf,
  settingsOf,
} from "../../support/replica-builders.ts";

const MANUAL = [{ key: "manual", bytes: 1_000 }];

function aRequest(change: Partial<Offer> = {}) {
  const parts = {
    tokenEstimate: new TokenEstimate(),
    outputLengths: new OutputLengths(),
    firstTokenMsMax: 60_000,
  };
  const offer = anOffer("r", { promptBytes: 2_000, prefixes: MANUAL, ...change });
  return toPoolRequest(offer, parts, undefined, 0);
}

/** One that was sent the manual, or not; with one slot, which may be taken. */
function aReplica(index: number, { knowsManual = false, isFull = false } = {}): Replica {
  const replica = new Replica(settingsOf(index));
  replica.connect(aHello(index, { sequencesMax: 1 }), 0);
  replica.report(aReport(1), { epoch: EPOCH, nowMs: 0 });
  if (knowsManual) replica.prefixes.note(MANUAL);
  if (isFull) replica.take(aSentRequest(1), 0);
  return replica;
}

/** Whether a request goes to a replica with so much to compute, at an instant. */
function goesTo(uncachedTokens: number, nowMs: number, request = aRequest()): boolean {
  const option = { uncachedTokens, isFeasible: true };
  waitForPrefix([option], request, nowMs);
  return option.isFeasible;
}

describe("a prefix that is waited for", () => {
  const replicas = [aReplica(0), aReplica(1, { knowsManual: true, isFull: true })];
  const request = aRequest();
  noteLeastWork(request, replicas, 0);
  const { promptTokens, leastUncachedTokens = NaN } = request;

  test("is the part of the prompt that was sent to a replica", () => {
    const cached = replicas.map((replica) => cachedTokensOn(replica, request));
    expect(cached).toEqual([0, Math.floor(promptTokens / 2)]);
  });

  test("is also that on a replica that has no room just now", () => {
    expect(leastUncachedTokens).toBe(promptTokens - Math.floor(promptTokens / 2));
  });

  test("is not that on a replica which the request must not use", () => {
    const barred = aRequest({ excludedReplicaIds: [replicaIdOf(1)] });
    noteLeastWork(barred, replicas, 0);
    expect(barred.leastUncachedTokens).toBe(promptTokens);
  });

  test("keeps a request from where it would have considerably more to compute", () => {
    expect(goesTo(promptTokens, 100, request)).toBe(false);
    expect(goesTo(leastUncachedTokens + 128, 100, request)).toBe(true);
    expect(goesTo(leastUncachedTokens + 129, 100, request)).toBe(false);
    const long = { ...request, leastUncachedTokens: 9_000 };
    expect(goesTo(10_000, 100, long)).toBe(true);
    expect(goesTo(10_001, 100, long)).toBe(false);
  });

  test("is waited for up to two fifths of the time that there is, however it was spent", () => {
    expect(goesTo(promptTokens, 399, request)).toBe(false);
    expect(goesTo(promptTokens, 400, request)).toBe(true);
    const late = { ...aRequest({ elapsedMs: 300 }), leastUncachedTokens };
    expect(goesTo(promptTokens, 99, late)).toBe(false);
    expect(goesTo(promptTokens, 100, late)).toBe(true);
  });

  test("is waited for two seconds at the most", () => {
    const targets = firstTokenWithin(50_000);
    const patient = { ...aRequest({ targets }), leastUncachedTokens };
    expect(goesTo(promptTokens, 1_999, patient)).toBe(false);
    expect(goesTo(promptTokens, 2_000, patient)).toBe(true);
  });

  test("keeps nobody away who has not been told of it, and makes nothing feasible", () => {
    expect(goesTo(promptTokens, 0)).toBe(true);
    const option = { uncachedTokens: 1, isFeasible: false };
    waitForPrefix([option], request, 0);
    expect(option.isFeasible).toBe(false);
  });
});
