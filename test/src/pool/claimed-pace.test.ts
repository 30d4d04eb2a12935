import { describe, expect, test } from "vitest";
import { claimedPaceMs } from "../../../src/pool/claimed-pace.ts";
import type { Replica } from "../../../src/replicas/replica.ts";
import { aHello, aReplica, aReport, EPOCH } from "../../support/replica-builders.ts";

const REQUEST = { promptTokens: 100, outputTokens: 50 } as const;

/** Lets it be found out, over five seconds, that answers take twice as long as the 11 ms a token that it tells. */
function findOut(replica: Replica): void {
  for (let nowMs = 0; nowMs <= 5_000; nowMs += 200) {
    const claimedMs = claimedPaceMs(replica, REQUEST, 0);
    if (claimedMs === undefined) throw new Error("Expected a claim, found none");
    replica.learn({ claimedMs: [claimedMs, claimedMs], actualMs: 22 }, nowMs);
  }
}

describe("claimedPaceMs()", () => {
  test("is what the replica's figures come to, whatever was found out about them", () => {
    const replica = aReplica();
    expect(claimedPaceMs(replica, REQUEST, 0)).toBe(11);
    findOut(replica);
    expect(replica.loadAt(0).speedRatio).toBeCloseTo(2, 1);
    expect(claimedPaceMs(replica, REQUEST, 0)).toBeCloseTo(11);
  });

  test("is none where the replica says itself that its figures do not hold", () => {
    expect(claimedPaceMs(aReplica({ report: { speedRatio: 1.2 } }), REQUEST, 0)).toBeCloseTo(13.2);
    for (const speedRatio of [1.3, 0.7]) {
      expect(claimedPaceMs(aReplica({ report: { speedRatio } }), REQUEST, 0)).toBeUndefined();
    }
  });

  test("is none where it tells none, or told it too long ago", () => {
    const step = { fixedMs: 0, tokenMs: 0, attendedPairMs: 0, sequenceMs: 0, kvTokenMs: 0 };
    expect(claimedPaceMs(aReplica({ report: { step } }), REQUEST, 0)).toBeUndefined();
    const replica = aReplica();
    expect(claimedPaceMs(replica, REQUEST, 1_000)).toBe(11);
    expect(claimedPaceMs(replica, REQUEST, 1_001)).toBeUndefined();
    const plain = aReplica({ settings: { plain: { engine: "vllm" } } });
    expect(claimedPaceMs(plain, REQUEST, 0)).toBeUndefined();
  });

  test("another process at the same URL is believed", () => {
    const replica = aReplica();
    findOut(replica);
    replica.connect(aHello(0, { instanceId: "another" }), 6_000);
    replica.report(aReport(1), { epoch: EPOCH, nowMs: 6_000 });
    expect(replica.loadAt(6_000).speedRatio).toBe(1);
  });
});
