import { describe, expect, test } from "vitest";
import { OutputLengths } from "../../../src/forecast/output-lengths.ts";
import { ReplicaWaits } from "../../../src/pool/replica-waits.ts";
import type { Replica } from "../../../src/replicas/replica.ts";
import { aReplica, aSentRequest } from "../../support/replica-builders.ts";

const KEY = { tenantId: "tenant-a", modelId: "sluice-tiny" };
const PROMPT_TOKENS = 100;

/** A replica of four slots and an engine's queue, with so many requests of ours that have begun. */
function replicaWith(residents: number, blockCount = 1_024): Replica {
  const replica = aReplica({ hello: { queueMax: 8 }, report: { blockCount } });
  for (let number = 1; number <= residents; number += 1) {
    replica.take(aSentRequest(number), 0);
    replica.started(number, 10);
  }
  return replica;
}

const waitsOf = (waits: ReplicaWaits, replica: Replica, nowMs = 20) =>
  waits.of(replica, replica.loadAt(nowMs), PROMPT_TOKENS, nowMs);

describe("ReplicaWaits", () => {
  test("nobody waits where a slot and memory are free", () => {
    const waits = new ReplicaWaits(new OutputLengths());
    expect(waitsOf(waits, replicaWith(3))).toEqual({ slotMs: 0, kvMs: 0 });
  });

  test("where all slots are taken one waits for a slot, longer behind others that wait", () => {
    const waits = new ReplicaWaits(new OutputLengths());
    const { slotMs } = waitsOf(waits, replicaWith(4));
    expect(slotMs).toBeGreaterThan(0);
    expect(waitsOf(waits, replicaWith(8)).slotMs).toBeGreaterThan(slotMs);
  });

  test("where memory is taken one waits for memory", () => {
    const waits = new ReplicaWaits(new OutputLengths());
    const { slotMs, kvMs } = waitsOf(waits, replicaWith(3, 20));
    expect(slotMs).toBe(0);
    expect(kvMs).toBeGreaterThan(0);
  });

  test("those that are there come to hold more than they hold, and no more than their limits let them", () => {
    const waits = new ReplicaWaits(new OutputLengths());
    const replica = replicaWith(4);
    const load = replica.loadAt(20);
    const peakTokens = waits.kvPeakTokens(replica, load, 20);
    expect(peakTokens).toBeGreaterThan(load.kvTokens);
    const limited = aReplica();
    limited.take(aSentRequest(1, { outputTokensMax: 5 }), 0);
    expect(waits.kvPeakTokens(limited, limited.loadAt(20), 20)).toBeLessThanOrEqual(105);
  });

  test("what was learned since is heeded at the same instant, as if nothing had been reckoned before", () => {
    const outputLengths = new OutputLengths();
    const waits = new ReplicaWaits(outputLengths);
    const replica = replicaWith(6);
    const before = waitsOf(waits, replica);
    for (let index = 0; index < 100; index += 1) {
      outputLengths.learn(KEY, 2_000, index, { isCensored: false });
    }
    waits.forget();
    const after = waitsOf(waits, replica);
    expect(after.slotMs).toBeGreaterThan(before.slotMs);
    expect(after).toEqual(waitsOf(new ReplicaWaits(outputLengths), replica));
  });
});
