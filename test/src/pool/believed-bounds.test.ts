import { describe, expect, test } from "vitest";
import type { PastForecast } from "../../../src/forecast/calibration.ts";
import { SHORT_OUTPUT_TOKENS } from "../../../src/forecast/forecast-bins.ts";
import { believedTpotMs, believedTtftMs } from "../../../src/pool/believed-bounds.ts";
import { aReplica } from "../../support/replica-builders.ts";

const IDLE = aReplica().loadAt(0);
const BUSY = aReplica({ report: { runningRequests: 1 } }).loadAt(0);

/** A forecast of 10 ms whose errors were such that the bound is `boundMs`. */
function foreseen(boundMs: number, change: Partial<PastForecast> = {}): PastForecast {
  return {
    profile: "sluice-tiny",
    tenantId: "tenant-a",
    targetMs: 1_000,
    outputTokens: 500,
    predictedMs: 10,
    boundMs,
    ...change,
  };
}

describe("believedTpotMs()", () => {
  test("is the forecast itself on an idle replica, however far that was off before", () => {
    for (const boundMs of [9, 11, 200]) expect(believedTpotMs(foreseen(boundMs), IDLE)).toBe(10);
  });

  test("is the bound beside others, up to 1.6 times the forecast", () => {
    expect(believedTpotMs(foreseen(15.9), BUSY)).toBe(15.9);
    expect(believedTpotMs(foreseen(200), BUSY)).toBe(16);
  });

  test("is up to twice the forecast where the output is short", () => {
    const ofTokens = (outputTokens: number) =>
      believedTpotMs(foreseen(200, { outputTokens }), BUSY);
    expect(ofTokens(SHORT_OUTPUT_TOKENS - 1)).toBe(20);
    expect(ofTokens(SHORT_OUTPUT_TOKENS)).toBe(16);
    expect(believedTpotMs(foreseen(19.9, { outputTokens: 1 }), BUSY)).toBe(19.9);
  });

  test("takes an output of unknown length for a long one", () => {
    const { outputTokens: _, ...unknown } = foreseen(200);
    expect(believedTpotMs(unknown, BUSY)).toBe(16);
  });
});

describe("believedTtftMs()", () => {
  test("is at most twice the forecast on an idle replica", () => {
    expect(believedTtftMs(foreseen(19.9), IDLE)).toBe(19.9);
    expect(believedTtftMs(foreseen(200), IDLE)).toBe(20);
  });

  test("is the whole bound beside others, since they may be a queue that was not foreseen", () => {
    expect(believedTtftMs(foreseen(200), BUSY)).toBe(200);
  });
});
