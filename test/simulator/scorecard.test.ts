import { describe, expect, test } from "vitest";
import type { Attainment } from "../../src/slo/attainment.ts";
import type { RequestRecord } from "../../simulator/request-record.ts";
import { Scorecard } from "../../simulator/scorecard.ts";
import { aRecord, aTimeline, GOOD } from "./records.ts";

function aScorecard(records: readonly RequestRecord[]): Scorecard {
  const card = new Scorecard({
    tenantNames: ["a", "b"],
    fromMs: 1_000,
    untilMs: 11_000,
    priceOf: ({ spec }) => spec.promptTokens,
  });
  for (const record of records) card.add(record);
  return card;
}

describe("Scorecard", () => {
  test("counts a tenant's requests apart, and all of them in the total", () => {
    const other = { ...aRecord().spec, tenantIndex: 1 };
    const card = aScorecard([aRecord(), aRecord(), aRecord({ spec: other })]);
    expect(card.tenants.map(({ name, counts }) => [name, counts.good])).toEqual([
      ["a", 2],
      ["b", 1],
    ]);
    expect(card.total.counts.good).toBe(3);
    expect(card.total.goodput.goodPerSecond).toBeCloseTo(0.3);
    expect(card.total.goodput.goodCostMsPerSecond).toBeCloseTo(30);
  });

  test("leaves out what arrived before or after the window", () => {
    const card = aScorecard([aRecord({ arrivedAtMs: 999 }), aRecord({ arrivedAtMs: 11_000 })]);
    expect(card.total.counts.offered).toBe(0);
    expect(card.total.goodput.admittedAttainmentRatio).toBeUndefined();
  });

  test("refusals in profile lower acceptance, others do not, and neither attainment", () => {
    const refused = aRecord({ verdict: "refused", dispatches: 0 });
    const card = aScorecard([aRecord(), refused, { ...refused, isInProfile: false }]);
    const { counts, goodput } = card.total;
    expect(counts).toMatchObject({ offered: 3, rejectedInProfile: 1, rejectedOutOfProfile: 1 });
    expect(goodput.inProfileAcceptanceRatio).toBe(0.5);
    expect(goodput.admittedAttainmentRatio).toBe(1);
    expect(goodput.offeredGoodRatio).toBeCloseTo(1 / 3);
  });

  test("a miss counts against every target that it broke, a failure as endless in TTFT", () => {
    const missed: Attainment = { kind: "missed", missed: ["ttft", "tpot"], isDegraded: false };
    const failed: Attainment = { kind: "missed", missed: ["failed"], isDegraded: false };
    const timeline = aTimeline({ ttftMs: undefined, decodeMs: undefined, ending: "failed" });
    const card = aScorecard([
      aRecord({ attainment: missed }),
      aRecord({ attainment: failed, timeline }),
    ]);
    const { counts, ttftMs, tpotMs } = card.total;
    expect(counts).toMatchObject({ missed: 2, good: 0 });
    expect(counts.missedBy).toEqual({ ttft: 1, tpot: 1, tbt: 0, e2e: 0, failed: 1 });
    expect(ttftMs.quantile(1)).toBe(Infinity);
    expect(tpotMs.quantile(0.5)).toBeCloseTo(10, 0);
  });

  test("degraded, excluded and unserved requests are not good, and are counted apart", () => {
    const card = aScorecard([
      aRecord({ attainment: { ...GOOD, isDegraded: true } }),
      aRecord({ attainment: { ...GOOD, kind: "excluded" } }),
      aRecord({ verdict: "unserved", dispatches: 0 }),
    ]);
    const { counts, unserved } = card.total;
    expect(counts).toMatchObject({ offered: 3, good: 0, degraded: 1, excluded: 1 });
    expect(unserved).toBe(1);
  });

  test("an answer too short for a TPOT has none", () => {
    const card = aScorecard([aRecord({ timeline: aTimeline({ outputTokens: 15 }) })]);
    expect(card.total.tpotMs.count).toBe(0);
  });
});
