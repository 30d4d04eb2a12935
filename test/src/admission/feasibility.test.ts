import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { FeasibilityQuestion } from "../../../src/admission/feasibility.ts";
import { checkFeasible } from "../../../src/admission/feasibility.ts";

interface Changes {
  readonly bounds?: Partial<FeasibilityQuestion["bounds"]>;
  readonly limits?: Partial<FeasibilityQuestion["limits"]>;
  readonly load?: Partial<FeasibilityQuestion["load"]>;
  readonly elapsedMs?: number;
  readonly kvPeakTokens?: number;
  readonly isInProfile?: boolean;
}

/** A request that has more than half of every limit left, but for what is changed. */
function question(changes: Changes = {}): FeasibilityQuestion {
  return {
    elapsedMs: 100,
    kvPeakTokens: 40_000,
    isInProfile: true,
    ...changes,
    bounds: {
      ttftMs: 300,
      tpotMs: 20,
      residentsTpotMs: 20,
      longestStepMs: 80,
      e2eMs: 2_000,
      ...changes.bounds,
    },
    limits: {
      ttftLimitMs: 1_000,
      tpotLimitMs: 50,
      tbtMaxMs: 200,
      e2eLimitMs: 10_000,
      ...changes.limits,
    },
    load: { tightestTpotMs: 50, tightestTbtMs: 200, kvTokensMax: 100_000, ...changes.load },
  };
}

describe("checkFeasible", () => {
  test("the headroom is that of the limit which is closest", () => {
    expect(checkFeasible(question())).toMatchObject({
      isFeasible: true,
      headroomRatio: 0.6,
      reason: undefined,
    });
    expect(checkFeasible(question({ bounds: { ttftMs: 700 } })).headroomRatio).toBeCloseTo(0.2, 12);
    expect(checkFeasible(question({ bounds: { e2eMs: 8_900 } })).headroomRatio).toBeCloseTo(
      0.1,
      12,
    );
  });

  test.each<[string, Changes]>([
    ["ttft", { bounds: { ttftMs: 901 } }],
    ["ttft", { bounds: { ttftMs: 100 }, elapsedMs: 901 }],
    ["tpot", { bounds: { tpotMs: 51 } }],
    ["tbt", { bounds: { longestStepMs: 201 }, load: { tightestTbtMs: Infinity } }],
    ["e2e", { bounds: { e2eMs: 9_901 } }],
    ["kv", { kvPeakTokens: 95_001 }],
    ["residents", { load: { tightestTpotMs: 19 } }],
    ["residents", { bounds: { residentsTpotMs: 51 } }],
    ["residents", { load: { tightestTbtMs: 79 } }],
  ])("a request that would break %s is infeasible", (reason, changes) => {
    const verdict = checkFeasible(question(changes));
    expect(verdict.isFeasible).toBe(false);
    expect(verdict.reason).toBe(reason);
    expect(verdict.headroomRatio).toBeLessThan(0);
  });

  test("a limit that is just met is met", () => {
    expect(checkFeasible(question({ bounds: { ttftMs: 900 } })).isFeasible).toBe(true);
    expect(checkFeasible(question({ kvPeakTokens: 95_000 })).isFeasible).toBe(true);
  });

  test("what was not promised is not asked for", () => {
    const nothing = { ttftLimitMs: Infinity, tpotLimitMs: Infinity, tbtMaxMs: Infinity };
    const endless = { ttftMs: Infinity, tpotMs: 1e9, e2eMs: Infinity };
    const verdict = checkFeasible(
      question({ bounds: endless, limits: { ...nothing, e2eLimitMs: Infinity } }),
    );
    expect(verdict).toMatchObject({ isFeasible: true, headroomRatio: 0.6, reason: undefined });
  });

  test("a request that can never run is infeasible", () => {
    const verdict = checkFeasible(question({ bounds: { ttftMs: Infinity } }));
    expect(verdict).toMatchObject({ isFeasible: false, headroomRatio: -Infinity, reason: "ttft" });
  });

  test("excess gets less of the KV than those in profile", () => {
    const excess = { isInProfile: false };
    expect(checkFeasible(question({ ...excess, kvPeakTokens: 85_000 })).isFeasible).toBe(true);
    expect(checkFeasible(question({ ...excess, kvPeakTokens: 85_001 })).reason).toBe("kv");
    expect(checkFeasible(question({ kvPeakTokens: 85_001 })).isFeasible).toBe(true);
  });

  test("below its ceiling KV makes no replica better than another", () => {
    expect(checkFeasible(question({ kvPeakTokens: 94_000 }))).toEqual(
      checkFeasible(question({ kvPeakTokens: 1_000 })),
    );
  });

  test("no bound that grows makes anything feasible that was not", () => {
    const ms = fc.double({ min: 0, max: 20_000, noNaN: true });
    const bounds = fc.record({
      ttftMs: ms,
      tpotMs: ms,
      residentsTpotMs: ms,
      longestStepMs: ms,
      e2eMs: ms,
    });
    fc.assert(
      fc.property(bounds, bounds, ms, (a, b, elapsedMs) => {
        const grown = {
          ttftMs: a.ttftMs + b.ttftMs,
          tpotMs: a.tpotMs + b.tpotMs,
          residentsTpotMs: a.residentsTpotMs + b.residentsTpotMs,
          longestStepMs: a.longestStepMs + b.longestStepMs,
          e2eMs: a.e2eMs + b.e2eMs,
        };
        const before = checkFeasible(question({ bounds: a, elapsedMs }));
        const after = checkFeasible(question({ bounds: grown, elapsedMs }));
        expect(after.headroomRatio).toBeLessThanOrEqual(before.headroomRatio);
        expect(before.isFeasible).toBe(before.headroomRatio >= 0);
        expect(before.reason === undefined).toBe(before.isFeasible);
      }),
    );
  });

  test("what a request has waited takes from its time, and from nobody's room", () => {
    const fresh = checkFeasible(question({ elapsedMs: 0 }));
    const late = checkFeasible(question({ elapsedMs: 10_000 }));
    expect(late.roomRatio).toBe(fresh.roomRatio);
    expect(late.headroomRatio).toBeLessThan(fresh.headroomRatio);
    expect(fresh.roomRatio).toBe(fresh.headroomRatio);
  });
});
