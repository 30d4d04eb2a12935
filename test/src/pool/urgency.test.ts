import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { urgencyOf } from "../../../src/pool/urgency.ts";
import { URGENCY_MAX } from "../../../src/protocol/urgency.ts";

const facts = fc.record({
  isInProfile: fc.boolean(),
  band: fc.integer({ min: 0, max: 9 }),
  leftMs: fc.oneof(fc.double({ min: -60_000, max: 600_000, noNaN: true }), fc.constant(Infinity)),
});

describe("urgencyOf()", () => {
  test("goes from 0 to its bound, each of which is there", () => {
    const dues = [0, 1_000, 5_000, 20_000, Infinity];
    const seen = [true, false].flatMap((isInProfile) =>
      dues.map((leftMs) => urgencyOf({ isInProfile, band: 0, leftMs })),
    );
    expect(seen).toEqual([9, 8, 7, 6, 5, 4, 3, 2, 1, 0]);
    expect(URGENCY_MAX).toBe(9);
    fc.assert(
      fc.property(facts, (fact) => {
        const urgency = urgencyOf(fact);
        expect(Number.isInteger(urgency) && urgency >= 0 && urgency <= URGENCY_MAX).toBe(true);
      }),
    );
  });

  test("puts all that is guaranteed before all that is not", () => {
    fc.assert(
      fc.property(facts, facts, (one, other) => {
        const inside = urgencyOf({ ...one, isInProfile: true });
        expect(inside).toBeGreaterThan(urgencyOf({ ...other, isInProfile: false }));
      }),
    );
  });

  test("never puts what is due later, or of a less urgent band, before its like", () => {
    const less = fc.record({ band: fc.nat(9), ms: fc.double({ min: 0, max: 1e6, noNaN: true }) });
    fc.assert(
      fc.property(facts, less, (fact, { band, ms }) => {
        const later = { ...fact, band: fact.band + band, leftMs: fact.leftMs + ms };
        expect(urgencyOf(later)).toBeLessThanOrEqual(urgencyOf(fact));
      }),
    );
  });

  test("takes a band for two seconds", () => {
    for (const leftMs of [0, 700, 3_000, 9_000, Infinity]) {
      expect(urgencyOf({ isInProfile: true, band: 2, leftMs })).toBe(
        urgencyOf({ isInProfile: true, band: 0, leftMs: leftMs + 4_000 }),
      );
    }
  });
});
