import { describe, expect, test } from "vitest";
import { copyState } from "../../../src/base/plain-state.ts";
import { DecisionLog, replay } from "../../../src/pool/decision-log.ts";
import { callPool } from "../../../src/pool/pool-call.ts";
import type { PoolOptions } from "../../../src/pool/pool.ts";
import { Pool } from "../../../src/pool/pool.ts";
import type { LivePool } from "../../../src/tenants/live-configuration.ts";
import { aLivePool, anOffer, aReadyPool, firstTokenWithin } from "../../support/pool-builders.ts";
import { EPOCH } from "../../support/replica-builders.ts";
import { RandomCalls, TIGHT_LIMITS } from "./random-calls.ts";

const SEEDS = Array.from({ length: 8 }, (_, index) => index + 1);

function optionsOf(seed: number): Omit<PoolOptions, "state"> {
  return { epoch: EPOCH, startedAtMs: 0, seed, limits: TIGHT_LIMITS };
}

function logged(seed: number, calls: number, callsPerSnapshot: number): DecisionLog {
  const log = new DecisionLog(new Pool(optionsOf(seed)), callsPerSnapshot);
  const source = new RandomCalls(seed);
  for (let index = 0; index < calls; index += 1) {
    const call = source.next();
    source.heed(log.call(call, source.nowMs));
  }
  return log;
}

describe("DecisionLog", () => {
  test("every record, replayed from its snapshot, leads to the same effects", () => {
    for (const seed of SEEDS) {
      for (const calls of [120, 280]) {
        for (const record of logged(seed, calls, 100).records()) {
          expect(replay(record, optionsOf(seed)), `seed ${seed}`).toEqual([]);
        }
      }
    }
  });

  test("a replay by other rules tells which calls lead to something else", () => {
    const log = new DecisionLog(aReadyPool({ hello: { queueMax: 1 } }));
    log.call({ kind: "offer", offer: anOffer("in-time") }, 1);
    const late = anOffer("too-late", { targets: firstTokenWithin(1) });
    const effects = log.call({ kind: "offer", offer: late }, 2);
    const [record] = log.records();
    if (record === undefined) throw new Error("A log has a record");
    const departures = replay(record, { ...optionsOf(1), mechanisms: { admission: false } });
    expect(departures.map((departure) => departure.logged.effects)).toEqual([effects]);
    expect(departures[0]?.replayed).toMatchObject([{ kind: "dispatch", requestId: "too-late" }]);
  });

  test("replaying a record changes nothing in it", () => {
    const [record] = logged(4, 200, 1_000).records();
    if (record === undefined) throw new Error("A log has a record");
    const before = copyState(record.snapshot);
    replay(record, optionsOf(4));
    expect(record.snapshot).toEqual(before);
  });

  test("it is bounded: never more than two records, none longer than agreed", () => {
    const log = logged(5, 1_000, 50);
    const records = log.records();
    expect(records).toHaveLength(2);
    expect(records[0]?.calls).toHaveLength(50);
    expect(records[1]?.calls.length).toBeLessThanOrEqual(50);
  });

  test("there are always as many calls to look back on as lie between two snapshots", () => {
    for (const calls of [49, 50, 51, 99, 100, 101, 175]) {
      const lengths = logged(6, calls, 50)
        .records()
        .map((record) => record.calls.length);
      const length = lengths.reduce((sum, each) => sum + each, 0);
      expect(length).toBeGreaterThanOrEqual(Math.min(calls, 50));
    }
  });
});

describe("a pool revived from a snapshot", () => {
  const { replicas } = aLivePool(3);
  const weighted = replicas.map((replica, index) => ({ ...replica, weight: 1 + index }));
  test.each<[string, Partial<LivePool>]>([
    ["replicas that are alike", {}],
    ["replicas that have weights", { replicas: weighted }],
  ])("goes on as the one that it was taken of, whenever that was: %s", (_, change) => {
    for (const seed of SEEDS) {
      const source = new RandomCalls(seed, change);
      const original = new Pool(optionsOf(seed));
      let revived = new Pool(optionsOf(seed));
      for (let index = 0; index < 300; index += 1) {
        // Revived at every call, so that anything remembered outside the state is lost each time.
        revived = new Pool({ ...optionsOf(seed), state: copyState(revived.state) });
        const call = source.next();
        const effects = callPool(original, call, source.nowMs);
        expect(callPool(revived, call, source.nowMs), `seed ${seed}, call ${index}`).toEqual(
          effects,
        );
        source.heed(effects);
      }
      expect(revived.state).toEqual(original.state);
      revived.checkInvariants();
    }
  });
});
