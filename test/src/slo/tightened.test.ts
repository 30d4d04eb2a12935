import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { ttftLimitMs } from "../../../src/slo/deadlines.ts";
import type { SloTargets } from "../../../src/slo/targets.ts";
import { tightened } from "../../../src/slo/tightened.ts";

const p95 = (limitMs: number) => ({ percentileRatio: 0.95, limitMs });
const CHAT: SloTargets = { ttft: p95(1_000), tpot: p95(50) };

const limit = fc.double({ min: 0.001, max: 1e6, noNaN: true });
const targets = fc.record(
  {
    ttft: fc.record(
      { percentileRatio: fc.constant(0.95), limitMs: limit, perPromptTokenMs: limit },
      { requiredKeys: ["percentileRatio", "limitMs"] },
    ),
    tpot: fc.record({ percentileRatio: fc.constant(0.9), limitMs: limit }),
    e2e: fc.record({ percentileRatio: fc.constant(0.9), limitMs: limit }),
    tbtMaxMs: limit,
  },
  { requiredKeys: [] },
);

describe("tightened()", () => {
  test("changes nothing by what is looser, or as tight", () => {
    expect(tightened(CHAT, { ttftMs: 1_000, tpotMs: 50 })).toBe(CHAT);
    expect(tightened(CHAT, { ttftMs: 1e9, tpotMs: 1e9 })).toBe(CHAT);
    expect(tightened(CHAT, {})).toBe(CHAT);
  });

  test("takes what is tighter, at the percentile that there is", () => {
    expect(tightened(CHAT, { ttftMs: 250.5 })).toEqual({ ...CHAT, ttft: p95(250.5) });
    expect(tightened(CHAT, { tpotMs: 12.5 })).toEqual({ ...CHAT, tpot: p95(12.5) });
  });

  test("adds a target where nothing was promised", () => {
    expect(tightened({}, { ttftMs: 300, tpotMs: 20 })).toEqual({
      ttft: { percentileRatio: 0.99, limitMs: 300 },
      tpot: { percentileRatio: 0.99, limitMs: 20 },
    });
  });

  test("never loosens a target, whatever the prompt is, and keeps each wish", () => {
    fc.assert(
      fc.property(
        targets,
        fc.option(limit, { nil: undefined }),
        fc.option(limit, { nil: undefined }),
        fc.nat(100_000),
        (given, ttftMs, tpotMs, promptTokens) => {
          const wishes = {
            ...(ttftMs !== undefined && { ttftMs }),
            ...(tpotMs !== undefined && { tpotMs }),
          };
          const tight = tightened(given, wishes);
          const limitMs = Math.min(ttftLimitMs(given, promptTokens), ttftMs ?? Infinity);
          expect(ttftLimitMs(tight, promptTokens)).toBe(limitMs);
          expect(tight.tpot?.limitMs ?? Infinity).toBe(
            Math.min(given.tpot?.limitMs ?? Infinity, tpotMs ?? Infinity),
          );
          expect([tight.e2e, tight.tbtMaxMs]).toEqual([given.e2e, given.tbtMaxMs]);
        },
      ),
    );
  });
});
