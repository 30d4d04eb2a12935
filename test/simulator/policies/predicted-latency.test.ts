import { describe, expect, test } from "vitest";
import type { PolicyReplica } from "../../../simulator/policies/policy.ts";
import { PredictedLatency } from "../../../simulator/policies/predicted-latency.ts";
import { RecursiveLeastSquares } from "../../../simulator/policies/recursive-least-squares.ts";
import { seededRandom } from "../../../src/base/random.ts";
import { replica, request } from "./policy-fixtures.ts";

const limit = (limitMs: number) => ({ percentileRatio: 0.99, limitMs });
const TARGETS = { ttft: limit(500), tpot: limit(50) };

describe("RecursiveLeastSquares", () => {
  test("finds the line that its samples lie on, and follows when that changes", () => {
    const model = new RecursiveLeastSquares(2);
    const random = seededRandom(1);
    const teach = (slope: number, samples: number) => {
      for (let sample = 0; sample < samples; sample += 1) {
        const x = 10 * random();
        model.learn([1, x], 5 + slope * x + (random() - 0.5));
      }
    };
    teach(3, 300);
    expect(Math.abs(model.predict([1, 4]) - 17)).toBeLessThan(0.5);
    teach(6, 4_000);
    expect(Math.abs(model.predict([1, 4]) - 29)).toBeLessThan(0.5);
  });
});

/** A policy that has seen that each request at a replica costs 50 ms of TTFT and 5 ms of TPOT. */
function taught() {
  const policy = new PredictedLatency({ bufferRatio: 1 });
  const random = seededRandom(7);
  const moment = { nowMs: 0, random };
  for (let index = 0; index < 600; index += 1) {
    const outstanding = Math.floor(20 * random());
    const asked = request({ targets: {} });
    policy.choose(asked, [loaded(0, outstanding)], moment);
    const [firstTokenAfterMs, tpotMs] = [50 * outstanding, 5 * outstanding];
    policy.ended(asked, { isGood: true, firstTokenAfterMs, tpotMs, outputTokens: 20 });
  }
  return (replicas: readonly PolicyReplica[]) => {
    const verdicts = Array.from({ length: 200 }, () =>
      policy.choose(request({ targets: TARGETS }), replicas, moment),
    );
    return verdicts.map((verdict) => (verdict.kind === "dispatch" ? verdict.replicaIndex : -1));
  };
}

const loaded = (replicaIndex: number, outstanding: number) =>
  replica(replicaIndex, { outstanding, runningRequests: outstanding });

const shareOf = (verdicts: readonly number[], index: number) =>
  verdicts.filter((each) => each === index).length / verdicts.length;

describe("PredictedLatency", () => {
  test("packs: it sends where both targets are predicted to hold most narrowly", () => {
    const verdicts = taught()([loaded(0, 2), loaded(1, 6), loaded(2, 19)]);
    expect(shareOf(verdicts, 1)).toBeGreaterThan(0.9);
    expect(shareOf(verdicts, 2)).toBe(0);
  });

  test("sheds what would break a target everywhere, but for what it learns by", () => {
    const verdicts = taught()([loaded(0, 15), loaded(1, 18)]);
    expect(shareOf(verdicts, -1)).toBeGreaterThan(0.95);
    expect(shareOf(verdicts, 1)).toBe(0);
  });

  test("sheds nothing while a replica is idle", () => {
    const verdicts = taught()([loaded(0, 19), loaded(1, 0)]);
    expect(shareOf(verdicts, 1)).toBeGreaterThan(0.9);
    expect(shareOf(verdicts, -1)).toBe(0);
  });

  test("goes by least outstanding until it has seen answers", () => {
    const policy = new PredictedLatency();
    const moment = { nowMs: 0, random: seededRandom(1) };
    const asked = request({ targets: TARGETS });
    expect(policy.choose(asked, [loaded(0, 90), loaded(1, 80)], moment)).toMatchObject({
      replicaIndex: 1,
    });
  });
});
