import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { capacityOf, nominalRate } from "../../../src/pool/capacity.ts";
import type { ReplicaLoad } from "../../../src/replicas/replica-load.ts";
import { aReplica } from "../../support/replica-builders.ts";

const FAST = aReplica().loadAt(0);
const slowedBy = (speedRatio: number): ReplicaLoad => ({ ...FAST, speedRatio });
/** A replica of another make: each step takes so much longer. */
const anotherMake = (factor: number): ReplicaLoad => ({
  ...FAST,
  step: { ...FAST.step, fixedMs: factor * FAST.step.fixedMs, tokenMs: factor * FAST.step.tokenMs },
});

describe("capacityOf()", () => {
  test("a pool without a ready replica has none", () => {
    expect(capacityOf([])).toBeUndefined();
  });

  test("replicas that are alike count one each", () => {
    expect(capacityOf([FAST, FAST, FAST])?.rateMsPerMs).toBeCloseTo(3);
  });

  test("a replica counts for as much of the fastest as it is as fast, slowed or of another make", () => {
    expect(capacityOf([FAST, slowedBy(4)])?.rateMsPerMs).toBeCloseTo(1.25);
    expect(capacityOf([anotherMake(2), FAST])?.rateMsPerMs).toBeCloseTo(1.5);
  });

  test("the order of replicas does not matter, and each one adds", () => {
    const make = fc.tuple(fc.double({ min: 0.2, max: 5, noNaN: true }), fc.boolean());
    fc.assert(
      fc.property(fc.array(make, { minLength: 1, maxLength: 8 }), (makes) => {
        const loads = makes.map(([factor, isSlowed]) =>
          isSlowed ? slowedBy(factor) : anotherMake(factor),
        );
        const capacity = capacityOf(loads);
        const reversed = capacityOf(loads.toReversed());
        expect(reversed?.rateMsPerMs).toBeCloseTo(capacity?.rateMsPerMs ?? 0);
        if (capacity === undefined) return;
        const more = capacityOf([...loads, anotherMake(5)]);
        expect(more?.rateMsPerMs).toBeGreaterThan(capacity.rateMsPerMs);
      }),
    );
  });
});

describe("nominalRate()", () => {
  test("a faster replica counts for more", () => {
    expect(nominalRate(FAST) / nominalRate(slowedBy(2))).toBeCloseTo(2);
  });
});
