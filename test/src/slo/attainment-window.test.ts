import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { copyState } from "../../../src/base/plain-state.ts";
import type { Attainment } from "../../../src/slo/attainment.ts";
import type { AttainmentEvent } from "../../../src/slo/attainment-window.ts";
import { addCounts, AttainmentWindow, noCounts } from "../../../src/slo/attainment-window.ts";

const GOOD: Attainment = { kind: "good", missed: [], isDegraded: false };
const ADMITTED: AttainmentEvent = { kind: "admitted" };
const MIN = 60_000;

const ended = (attainment: Partial<Attainment>, costMs = 10): AttainmentEvent => ({
  kind: "ended",
  attainment: { ...GOOD, ...attainment },
  costMs,
});

describe("AttainmentWindow", () => {
  test("counts each kind of event where it belongs", () => {
    const window = new AttainmentWindow();
    const events: AttainmentEvent[] = [
      { kind: "offered", isInProfile: true, costMs: 10 },
      { kind: "offered", isInProfile: false, costMs: 30 },
      ADMITTED,
      { kind: "rejected", isInProfile: true },
      { kind: "rejected", isInProfile: false },
      { kind: "rejected", isInProfile: false },
      ended({}, 7),
      ended({ isDegraded: true }, 100),
      ended({ kind: "missed", missed: ["ttft", "tbt"], isDegraded: true }),
      ended({ kind: "missed", missed: ["ttft"] }),
      ended({ kind: "excluded" }),
    ];
    for (const event of events) window.add(event, 1000);
    window.checkInvariants();
    expect(window.sum(5000, 1000)).toEqual({
      offered: 2,
      offeredInProfile: 1,
      admitted: 1,
      good: 1,
      degraded: 1,
      missed: 2,
      missedBy: { ttft: 2, tpot: 0, tbt: 1, e2e: 0, failed: 0 },
      excluded: 1,
      rejectedInProfile: 1,
      rejectedOutOfProfile: 2,
      offeredCostMs: 40,
      goodCostMs: 7,
    });
  });

  test("its total keeps what has left every window", () => {
    const window = new AttainmentWindow();
    window.add(ADMITTED, 0);
    window.add(ended({}, 7), 600 * MIN);
    expect(window.sum(360 * MIN, 600 * MIN)).toMatchObject({ admitted: 0, good: 1 });
    expect(window.total).toMatchObject({ admitted: 1, good: 1, goodCostMs: 7 });
  });

  test("an event is in a window until the window has moved past its bucket", () => {
    const window = new AttainmentWindow();
    window.add(ADMITTED, 2_000);
    const admittedAt = (nowMs: number) => window.sum(5 * MIN, nowMs).admitted;
    expect([2_000, 299_999, 300_000].map(admittedAt)).toEqual([1, 1, 0]);
    expect(window.sum(60 * MIN, 300_000).admitted).toBe(1);
    expect(window.sum(360 * MIN, 359 * MIN).admitted).toBe(1);
    expect(window.sum(360 * MIN, 360 * MIN).admitted).toBe(0);
  });

  test("a window longer than any ring is as long as the longest", () => {
    const window = new AttainmentWindow({ rings: [{ bucketMs: 10, bucketsMax: 3 }] });
    for (const nowMs of [0, 10, 20, 30]) window.add(ADMITTED, nowMs);
    expect(window.sum(1_000_000, 30).admitted).toBe(3);
  });

  test("a clock that runs backwards counts into the latest bucket", () => {
    const window = new AttainmentWindow({ rings: [{ bucketMs: 10, bucketsMax: 3 }] });
    window.add(ADMITTED, 25);
    window.add(ADMITTED, 4);
    window.checkInvariants();
    expect(window.sum(10, 4).admitted).toBe(2);
  });

  test("it agrees with a list of all events, and stays within its buckets", () => {
    const bucketMs = 10;
    const bucketsMax = 6;
    const steps = fc.array(fc.nat(40), { maxLength: 60 });
    fc.assert(
      fc.property(steps, fc.integer({ min: 1, max: bucketsMax }), (gaps, windowBuckets) => {
        const window = new AttainmentWindow({ rings: [{ bucketMs, bucketsMax }] });
        const instants: number[] = [];
        let nowMs = 0;
        for (const gapMs of gaps) {
          nowMs += gapMs;
          window.add(ADMITTED, nowMs);
          instants.push(nowMs);
          window.checkInvariants();
          const firstAtMs = (Math.floor(nowMs / bucketMs) - windowBuckets + 1) * bucketMs;
          expect(window.sum(windowBuckets * bucketMs, nowMs).admitted).toBe(
            instants.filter((atMs) => atMs >= firstAtMs).length,
          );
        }
        expect(window.state.rings[0]?.length ?? 0).toBeLessThanOrEqual(bucketsMax);
      }),
    );
  });

  test("one that goes on from a copy of its state counts the same as the original", () => {
    const original = new AttainmentWindow();
    for (let nowMs = 0; nowMs < 2 * MIN; nowMs += 1700) original.add(ended({}), nowMs);
    const revived = new AttainmentWindow({}, copyState(original.state));
    for (const window of [original, revived]) {
      for (let nowMs = 2 * MIN; nowMs < 8 * MIN; nowMs += 1700) window.add(ADMITTED, nowMs);
    }
    for (const windowMs of [MIN, 5 * MIN, 60 * MIN]) {
      expect(revived.sum(windowMs, 8 * MIN)).toEqual(original.sum(windowMs, 8 * MIN));
    }
    expect(revived.state).toEqual(original.state);
  });

  test("what happens to a copy leaves the original alone", () => {
    const original = new AttainmentWindow();
    original.add(ADMITTED, 0);
    new AttainmentWindow({}, copyState(original.state)).add(ADMITTED, 0);
    expect(original.sum(5000, 0).admitted).toBe(1);
  });
});

/** Counts that are all different. */
function countsOf(unit: number) {
  return {
    offered: unit,
    offeredInProfile: 2 * unit,
    admitted: 3 * unit,
    good: 4 * unit,
    degraded: 5 * unit,
    missed: 6 * unit,
    missedBy: { ttft: 7 * unit, tpot: 8 * unit, tbt: 9 * unit, e2e: 10 * unit, failed: unit },
    excluded: 11 * unit,
    rejectedInProfile: 12 * unit,
    rejectedOutOfProfile: 13 * unit,
    offeredCostMs: 14 * unit,
    goodCostMs: 15 * unit,
  };
}

describe("addCounts()", () => {
  test("adds every count to its own", () => {
    const total = noCounts();
    addCounts(total, countsOf(1));
    addCounts(total, countsOf(100));
    expect(total).toEqual(countsOf(101));
  });
});
