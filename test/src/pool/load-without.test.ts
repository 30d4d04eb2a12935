import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { loadWithout } from "../../../src/pool/load-without.ts";
import type { ReplicaLoad } from "../../../src/replicas/replica-load.ts";
import { aReplica, aSentRequest } from "../../support/replica-builders.ts";
import { aLease } from "./leases.ts";

const SENT = fc.record({
  promptTokens: fc.integer({ min: 1, max: 2_000 }),
  cachedRatio: fc.double({ min: 0, max: 1, noNaN: true }),
  outputTokens: fc.integer({ min: 1, max: 500 }),
});

const QUANTITIES = [
  "prefillTokens",
  "prefillPairs",
  "sequences",
  "kvTokens",
  "kvTokensExpected",
] as const satisfies readonly (keyof ReplicaLoad)[];

describe("loadWithout()", () => {
  test("takes away exactly what sending the request has added", () => {
    fc.assert(
      fc.property(SENT, ({ promptTokens, cachedRatio, outputTokens }) => {
        const cachedTokens = Math.floor(promptTokens * cachedRatio);
        const sent = { promptTokens, cachedTokens };
        const replica = aReplica();
        replica.take(aSentRequest(1), 0);
        const before = replica.loadAt(0);
        replica.take(aSentRequest(2, { ...sent, expectedOutputTokens: outputTokens }), 0);
        const without = loadWithout(replica.loadAt(0), aLease("a", { ...sent, outputTokens }));
        for (const name of QUANTITIES) expect(without[name]).toBeCloseTo(before[name]);
      }),
    );
  });

  test("leaves no less than nothing, whatever the replica has computed of it meanwhile", () => {
    const without = loadWithout(aReplica().loadAt(0), aLease("a"));
    for (const name of QUANTITIES) expect(without[name]).toBe(0);
  });
});
