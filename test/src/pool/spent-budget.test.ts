import { expect, test } from "vitest";
import { aReadyPool, anOffer, firstTokenWithin, only } from "../../support/pool-builders.ts";
import { aReport, replicaIdOf } from "../../support/replica-builders.ts";

const WITHIN_HALF_A_SECOND = { targets: firstTokenWithin(500) };

const QUEUED_TOKENS = 120;

/** A pool whose only replica has a queue that takes some quarter of a second. */
function busyPool() {
  const pool = aReadyPool();
  pool.report(replicaIdOf(0), aReport(2, { queuedUncachedTokens: QUEUED_TOKENS }), 0);
  return pool;
}

/** By when the pool foresees the first token of a request that has all of its time. */
function foreseenMs(): number {
  const [sent] = only("dispatch", busyPool().offer(anOffer("fresh", WITHIN_HALF_A_SECOND), 1));
  return sent?.dispatch.forecast.ttftMs ?? Infinity;
}

test("a forecast that fits a whole budget does not fit what is left of it", () => {
  const ttftMs = foreseenMs();
  expect(ttftMs).toBeLessThan(500);
  const barely = anOffer("early", { ...WITHIN_HALF_A_SECOND, elapsedMs: 500 - ttftMs - 5 });
  const spent = anOffer("late", { ...WITHIN_HALF_A_SECOND, elapsedMs: 500 - ttftMs + 5 });
  expect(only("dispatch", busyPool().offer(barely, 1))).toHaveLength(1);
  expect(only("dispatch", busyPool().offer(spent, 1))).toEqual([]);
});
