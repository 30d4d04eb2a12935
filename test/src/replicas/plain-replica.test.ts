import { describe, expect, test } from "vitest";
import { copyState } from "../../../src/base/plain-state.ts";
import { SIGNALS_AGE_MS_MAX } from "../../../src/replicas/replica-condition.ts";
import { Replica } from "../../../src/replicas/replica.ts";
import { PLAIN_STEP } from "../../../src/replicas/plain-load.ts";
import {
  aHello,
  aReport,
  aSentRequest,
  EPOCH,
  settingsOf,
} from "../../support/replica-builders.ts";

const PLAIN = { plain: { engine: "openai" } } as const;

const aPlainReplica = (change: { requestsMax?: number } = {}) =>
  new Replica(settingsOf(0, { ...PLAIN, ...change }));

describe("a replica that never reports", () => {
  test("is there from the start, and what is known of it is never old", () => {
    const replica = aPlainReplica({ requestsMax: 2 });
    expect(replica.conditionAt(0)).toBe("ready");
    expect(replica.conditionAt(3_600_000)).toBe("ready");
    expect(replica.reportAgeMs(3_600_000)).toBe(0);
    expect(replica.isExpected(0)).toBe(false);
    expect(replica.freeSlots).toBe(2);
    expect(replica.lastReport).toBeUndefined();
    replica.checkInvariants();
  });

  test("has as many slots as servers have by default where none are configured", () => {
    expect(aPlainReplica().freeSlots).toBe(256);
  });

  test("has on its hands what was sent there, less the prompts that are computed by now", () => {
    const replica = aPlainReplica();
    replica.take(aSentRequest(1, { promptTokens: 1_000, cachedTokens: 200 }), 0);
    replica.take(aSentRequest(2, { promptTokens: 1_000 }), 0);
    expect(replica.loadAt(0)).toMatchObject({
      sequences: 2,
      prefillTokens: 1_800,
      kvTokens: 2_000,
      kvTokensExpected: 2_100,
    });
    expect(replica.loadAt(800 * PLAIN_STEP.tokenMs)).toMatchObject({
      sequences: 2,
      prefillTokens: 1_000,
    });
    expect(replica.loadAt(60_000)).toMatchObject({ sequences: 2, prefillTokens: 0 });
    replica.release(1);
    replica.release(2);
    expect(replica.loadAt(60_000)).toMatchObject({ sequences: 0, kvTokens: 0 });
  });

  test("has no prompt left that has its first token, however early that came", () => {
    const replica = aPlainReplica();
    replica.take(aSentRequest(1, { promptTokens: 1_000 }), 0);
    replica.started(1, 1);
    expect(replica.loadAt(1).prefillTokens).toBe(0);
  });

  test("is as fast as its completions show, before which a speed is assumed", () => {
    const replica = aPlainReplica();
    expect(replica.loadAt(0).speedRatio).toBe(1);
    const slow = { predictedMs: 10, actualMs: 40 };
    for (let count = 0; count < 20; count++) {
      replica.learn({ ...slow, speedRatio: 1 }, 0);
    }
    expect(replica.loadAt(0).speedRatio).toBeCloseTo(4, 1);
  });

  test("holds as much as anybody sends: how much memory it has nobody says", () => {
    expect(aPlainReplica().loadAt(0).kvTokensMax).toBe(Infinity);
  });

  test("takes no report, and gets nothing more once it has left the configuration", () => {
    const replica = aPlainReplica();
    expect(replica.report(aReport(1), { epoch: EPOCH, nowMs: 0 })).toBe(false);
    replica.remove();
    expect(replica.conditionAt(0)).toBe("removed");
  });

  test("goes on from a copy of its state as it was", () => {
    const replica = aPlainReplica();
    replica.take(aSentRequest(1, { promptTokens: 1_000 }), 0);
    const copy = new Replica(replica.state.settings, {}, copyState(replica.state));
    expect(copy.loadAt(50)).toEqual(replica.loadAt(50));
  });

  test("was an engine of ours before: then nothing of what that said is believed any more", () => {
    const replica = new Replica(settingsOf(0));
    replica.connect(aHello(0), 0);
    replica.report(aReport(1, { runningRequests: 3 }), { epoch: EPOCH, nowMs: 0 });
    replica.configure(settingsOf(0, PLAIN));
    expect(replica.freeSlots).toBe(256);
    expect(replica.lastReport).toBeUndefined();
    expect(replica.loadAt(0).sequences).toBe(0);
    replica.checkInvariants();
    replica.configure(settingsOf(0));
    expect(replica.conditionAt(0)).toBe("disconnected");
  });

  test("has on its hands besides what others have there, by its own word", () => {
    const replica = aPlainReplica();
    replica.take(aSentRequest(1, { promptTokens: 100 }), 0);
    replica.told({ running: 6, queued: 2, queuedTokens: 5_000 }, 10);
    expect(replica.strangers).toBe(7);
    expect(replica.freeSlots).toBe(256 - 8);
    expect(replica.loadAt(20)).toMatchObject({
      sequences: 8,
      // Where requests wait, no more can run.
      sequencesMax: 6,
      prefillTokens: 5_000,
    });
    replica.told({}, 1_000);
    expect(replica.loadAt(1_000)).toMatchObject({ sequences: 1, sequencesMax: 256 });
    replica.checkInvariants();
  });

  test("runs as many requests as it says, unless the configuration says otherwise", () => {
    const [said, configured] = [aPlainReplica(), aPlainReplica({ requestsMax: 9 })];
    for (const replica of [said, configured]) replica.told({ runningMax: 4 }, 0);
    expect([said.freeSlots, configured.freeSlots]).toEqual([4, 9]);
  });

  test("is not ready by its own word, as long as that is fresh", () => {
    const replica = aPlainReplica();
    replica.told({ isReady: false }, 0);
    expect(replica.conditionAt(SIGNALS_AGE_MS_MAX)).toBe("unready");
    expect(replica.conditionAt(SIGNALS_AGE_MS_MAX + 1)).toBe("ready");
  });

  test("says nothing where it is one of ours, which reports", () => {
    const replica = new Replica(settingsOf(0));
    replica.told({ isReady: false, running: 9 }, 0);
    expect(replica.strangers).toBe(0);
  });
});
