import { describe, expect, test } from "vitest";
import { anOffer, aReadyPool, only } from "../../support/pool-builders.ts";

/** About 20,000 tokens by the estimate that a new pool has; a replica here holds 16,384. */
const TOO_LARGE = { promptBytes: 70_000, targets: {} } as const;

describe("a prompt that seems to need more KV than a replica has", () => {
  test("goes to an empty one at once, since only the engine can count", () => {
    const pool = aReadyPool({ hello: { sequencesMax: 4 } });
    expect(only("dispatch", pool.offer(anOffer("r", TOO_LARGE), 0))).toHaveLength(1);
  });

  test("waits while others are there from whom it would take", () => {
    const pool = aReadyPool({ hello: { sequencesMax: 4 } });
    const [other] = only("dispatch", pool.offer(anOffer("other", { targets: {} }), 0));
    const effects = pool.offer(anOffer("r", TOO_LARGE), 0);
    expect([only("dispatch", effects), only("reject", effects)]).toEqual([[], []]);
    if (other === undefined) throw new Error("The first request was not sent");
    const settled = pool.settle(other.leaseId, { kind: "completed" }, 10);
    expect(only("dispatch", settled).map(({ requestId }) => requestId)).toEqual(["r"]);
    pool.checkInvariants();
  });
});
