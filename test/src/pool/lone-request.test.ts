import { describe, expect, test } from "vitest";
import type { Pool } from "../../../src/pool/pool.ts";
import { anOffer, aReadyPool, firstTokenWithin, only } from "../../support/pool-builders.ts";
import { aReport, replicaIdOf } from "../../support/replica-builders.ts";

/** About 1,000 tokens by the estimate that a new pool has. */
const TOO_LARGE = { promptBytes: 3_500, targets: {} } as const;

/** A pool whose one replica holds 512 tokens. */
function aSmallPool(): Pool {
  const pool = aReadyPool({ hello: { blockCount: 32 } });
  pool.report(replicaIdOf(0), aReport(2, { blockCount: 32 }), 0);
  return pool;
}

describe("a prompt that seems to need more KV than a replica has", () => {
  test("goes to an empty one at once, since only the engine can count", () => {
    expect(only("dispatch", aSmallPool().offer(anOffer("r", TOO_LARGE), 0))).toHaveLength(1);
  });

  test("waits while others are there from whom it would take", () => {
    const pool = aSmallPool();
    const [other] = only("dispatch", pool.offer(anOffer("other", { targets: {} }), 0));
    const effects = pool.offer(anOffer("r", TOO_LARGE), 0);
    expect([only("dispatch", effects), only("reject", effects)]).toEqual([[], []]);
    if (other === undefined) throw new Error("The first request was not sent");
    const settled = pool.settle(other.leaseId, { kind: "completed" }, 10);
    expect(only("dispatch", settled).map(({ requestId }) => requestId)).toEqual(["r"]);
    pool.checkInvariants();
  });
});

describe("a request that would be late even if it were alone", () => {
  /** Two seconds of prefill fit the target, but not with the margin that the promise needs. */
  const BARELY = { promptBytes: 6_700, targets: firstTokenWithin(2_000) } as const;

  test("is refused at once, since waiting would not help", () => {
    const pool = aReadyPool();
    const [rejected] = only("reject", pool.offer(anOffer("r", BARELY), 0));
    expect(rejected?.rejection).toMatchObject({
      code: "server_is_overloaded",
      reason: "infeasible",
    });
    pool.checkInvariants();
  });

  test("is refused at once also where others are there", () => {
    const pool = aReadyPool();
    pool.offer(anOffer("other", { targets: {} }), 0);
    expect(only("reject", pool.offer(anOffer("r", BARELY), 0))).toHaveLength(1);
  });

  test("waits while a replica is there that could take it without the others", () => {
    const pool = aReadyPool({ hello: { sequencesMax: 1 } });
    pool.offer(anOffer("other", { targets: {} }), 0);
    const roomy = { ...BARELY, targets: firstTokenWithin(20_000) };
    expect(only("reject", pool.offer(anOffer("r", roomy), 0))).toEqual([]);
    expect(pool.status(0).queued).toBe(1);
  });
});
