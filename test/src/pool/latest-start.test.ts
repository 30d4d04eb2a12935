import { describe, expect, test } from "vitest";
import { OutputLengths } from "../../../src/forecast/output-lengths.ts";
import { toPoolRequest } from "../../../src/pool/intake.ts";
import { idleWaitMs, isUnattainable, latestStartAtMs } from "../../../src/pool/latest-start.ts";
import type { Offer } from "../../../src/pool/offer.ts";
import type { PoolRequest } from "../../../src/pool/pool-request.ts";
import { TokenEstimate } from "../../../src/pool/token-estimate.ts";
import { Replica } from "../../../src/replicas/replica.ts";
import { anOffer, firstTokenWithin } from "../../support/pool-builders.ts";
import { aReplica, replicaIdOf, settingsOf } from "../../support/replica-builders.ts";

/** A request of 16 tokens, which an idle replica begins to answer after 26 ms. */
function aRequest(change: Partial<Offer> = {}): PoolRequest {
  const parts = {
    tokenEstimate: new TokenEstimate(),
    outputLengths: new OutputLengths(),
    firstTokenMsMax: 60_000,
  };
  return toPoolRequest(anOffer("r", change), parts, undefined, 0);
}

const slow = (speedRatio: number) => aReplica({ report: { speedRatio } });
const gone = () => {
  const replica = aReplica();
  replica.disconnect();
  return replica;
};

describe("latestStartAtMs()", () => {
  test("leaves as much time as an idle replica takes", () => {
    expect(latestStartAtMs(aRequest(), [aReplica()], 0)).toBe(1_000 - 26);
  });

  test("stays the same as time passes, and is earlier by what was spent before", () => {
    const request = aRequest({ elapsedMs: 300 });
    expect(latestStartAtMs(request, [aReplica()], 0)).toBe(700 - 26);
    expect(latestStartAtMs(request, [aReplica()], 500)).toBe(700 - 26);
  });

  test("goes by the fastest replica that the request may use", () => {
    const fastest = latestStartAtMs(aRequest(), [slow(4), aReplica(), slow(2)], 0);
    expect(fastest).toBe(latestStartAtMs(aRequest(), [aReplica()], 0));
    const excluded = aRequest({ excludedReplicaIds: [replicaIdOf(0)] });
    expect(latestStartAtMs(excluded, [aReplica()], 0)).toBeUndefined();
  });

  test("counts what a whole answer takes to its end", () => {
    const whole = {
      isStreamed: false,
      targets: { e2e: { percentileRatio: 0.99, limitMs: 4_000 } },
    };
    const short =
      latestStartAtMs(aRequest({ ...whole, outputTokensMax: 10 }), [aReplica()], 0) ?? 0;
    const long = latestStartAtMs(aRequest({ ...whole, outputTokensMax: 80 }), [aReplica()], 0) ?? 0;
    expect(short).toBeLessThan(4_000);
    expect(long).toBeLessThan(short);
  });

  test("there is none while nobody is ready", () => {
    expect(latestStartAtMs(aRequest(), [], 0)).toBeUndefined();
    expect(latestStartAtMs(aRequest(), [gone()], 0)).toBeUndefined();
    expect(
      latestStartAtMs(aRequest(), [aReplica({ report: { draining: true } })], 0),
    ).toBeUndefined();
  });
});

describe("isUnattainable()", () => {
  const hopeless = aRequest({ targets: firstTokenWithin(25) });

  test("is what no replica could do even if idle", () => {
    expect(isUnattainable(hopeless, [aReplica(), slow(2)], 0)).toBe(true);
    expect(isUnattainable(hopeless, [aReplica(), slow(0.5)], 0)).toBe(false);
  });

  test("is not what only comes too late", () => {
    const late = aRequest({ elapsedMs: 999 });
    expect(isUnattainable(late, [aReplica()], 5_000)).toBe(false);
  });

  test("counts replicas that drain, have failed the request, or are silent", () => {
    const able = aReplica({ report: { speedRatio: 0.5, draining: true } });
    expect(isUnattainable(hopeless, [aReplica(), able], 0)).toBe(false);
    expect(isUnattainable(hopeless, [aReplica(), slow(0.5)], 60_000)).toBe(false);
    const excluding = { ...hopeless.offer, excludedReplicaIds: [replicaIdOf(0)] };
    expect(isUnattainable({ ...hopeless, offer: excluding }, [slow(0.5)], 0)).toBe(false);
  });

  test("cannot be told without a replica, or while one has not reported", () => {
    expect(isUnattainable(hopeless, [], 0)).toBe(false);
    expect(isUnattainable(hopeless, [aReplica(), new Replica(settingsOf(1))], 0)).toBe(false);
  });
});

describe("idleWaitMs()", () => {
  test("is what the fastest replica would take", () => {
    expect(idleWaitMs(aRequest(), [slow(3), aReplica(), slow(2)], 0)).toBe(26);
  });

  test("has no end where nobody has reported", () => {
    expect(idleWaitMs(aRequest(), [new Replica(settingsOf(0))], 0)).toBe(Infinity);
  });
});
