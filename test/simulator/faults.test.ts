import { expect, test } from "vitest";
import { seededRandom } from "../../src/base/random.ts";
import { drawFaults } from "../../simulator/faults.ts";

const OPTIONS = { count: 300, replicas: 3, untilMs: 10_000, forMsMax: 2_000 };

const draw = (seed: number) => drawFaults(seededRandom(seed), OPTIONS);

test("faults of every kind are drawn, for every replica, within their bounds", () => {
  const faults = draw(1);
  expect(new Set(faults.map(({ kind }) => kind)).size).toBe(8);
  const ofReplicas = faults.flatMap((fault) => (fault.kind === "pool-restarted" ? [] : [fault]));
  expect(new Set(ofReplicas.map(({ replicaIndex }) => replicaIndex))).toEqual(new Set([0, 1, 2]));
  expect(Math.max(...faults.map(({ atMs }) => atMs))).toBeLessThan(OPTIONS.untilMs);
  expect(Math.max(...ofReplicas.map(({ forMs }) => forMs))).toBeLessThan(OPTIONS.forMsMax);
});

test("one seed draws the same faults again", () => {
  expect(draw(2)).toEqual(draw(2));
  expect(draw(2)).not.toEqual(draw(3));
});
