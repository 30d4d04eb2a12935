import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { judgeAttainment } from "../../../src/slo/attainment.ts";
import type { SloTargets } from "../../../src/slo/targets.ts";
import type { RequestTimeline } from "../../../src/slo/timeline.ts";

const p99 = (limitMs: number) => ({ percentileRatio: 0.99, limitMs });
const TARGETS: SloTargets = { ttft: p99(500), tpot: p99(50), e2e: p99(9000), tbtMaxMs: 200 };

/** A stream of 101 tokens that meets each of `TARGETS` to the millisecond. */
const STREAM: RequestTimeline = {
  isStreamed: true,
  promptTokens: 100,
  ttftMs: 500,
  e2eMs: 9000,
  elapsedMs: 9000,
  decodeMs: 5000,
  outputTokens: 101,
  longestGapMs: 200,
  lateTokens: 1,
  queuedMs: 0,
  ending: "stop",
  isDegraded: false,
};

function missedBy(change: Partial<RequestTimeline>, targets: SloTargets = TARGETS): string {
  const { kind, missed } = judgeAttainment({ ...STREAM, ...change }, targets);
  return kind === "missed" ? missed.join() : kind;
}

describe("judgeAttainment(), streams", () => {
  test("a stream that meets every target to the millisecond is good", () => {
    expect(missedBy({})).toBe("good");
  });

  test.each<[string, Partial<RequestTimeline>]>([
    ["ttft", { ttftMs: 500.1 }],
    ["tpot", { decodeMs: 5000.1 }],
    ["tbt", { longestGapMs: 200.1 }],
    ["tbt", { lateTokens: 2 }],
    ["e2e", { e2eMs: 9000.1, elapsedMs: 9000.1 }],
    ["ttft,tpot,tbt,e2e", { ttftMs: 600, decodeMs: 6000, longestGapMs: 300, elapsedMs: 9001 }],
  ])("it misses %s beyond its limit", (metric, change) => {
    expect(missedBy(change)).toBe(metric);
  });

  test("what is not promised cannot be missed", () => {
    const slow = { ttftMs: 1e6, decodeMs: 1e6, longestGapMs: 1e6, lateTokens: 99, elapsedMs: 2e6 };
    expect(missedBy(slow, {})).toBe("good");
    expect(missedBy(slow, { ttft: p99(500) })).toBe("ttft");
    expect(missedBy(slow, { tpot: p99(50) })).toBe("tpot");
    expect(missedBy(slow, { tbtMaxMs: 200 })).toBe("tbt");
    expect(missedBy(slow, { e2e: p99(9000) })).toBe("e2e");
  });

  test("an E2E limit that TTFT and TPOT imply does not judge a stream", () => {
    const targets = { ttft: p99(500), tpot: p99(50) };
    expect(missedBy({ elapsedMs: 5501, e2eMs: 5501 }, targets)).toBe("good");
  });

  test("TPOT is a mean from 16 tokens on, and a total with grace below", () => {
    expect(missedBy({ outputTokens: 16, decodeMs: 750, lateTokens: 0 })).toBe("good");
    expect(missedBy({ outputTokens: 16, decodeMs: 751, lateTokens: 0 })).toBe("tpot");
    expect(missedBy({ outputTokens: 15, decodeMs: 950, lateTokens: 0 })).toBe("good");
    expect(missedBy({ outputTokens: 15, decodeMs: 951, lateTokens: 0 })).toBe("tpot");
  });

  test("a TTFT limit that grows with the prompt allows a long prompt more", () => {
    const targets = { ttft: { ...p99(500), perPromptTokenMs: 0.2 } };
    expect(missedBy({ promptTokens: 1000, ttftMs: 700 }, targets)).toBe("good");
    expect(missedBy({ promptTokens: 999, ttftMs: 700 }, targets)).toBe("ttft");
    expect(missedBy({ promptTokens: undefined, ttftMs: 501 }, targets)).toBe("ttft");
  });

  test("an answer without tokens is judged by when it was over", () => {
    const empty = { ttftMs: undefined, decodeMs: undefined, outputTokens: 0, lateTokens: 0 };
    expect(missedBy({ ...empty, longestGapMs: 0, elapsedMs: 500 })).toBe("good");
    expect(missedBy({ ...empty, longestGapMs: 0, elapsedMs: 501 })).toBe("ttft");
  });
});

describe("judgeAttainment(), whole answers", () => {
  const whole = { isStreamed: false, ttftMs: 9000, longestGapMs: 8000, lateTokens: 101 };

  test("only E2E judges a whole answer", () => {
    expect(missedBy(whole)).toBe("good");
    expect(missedBy({ ...whole, elapsedMs: 9000.1 })).toBe("e2e");
  });

  test("without an E2E target it may take what TTFT and TPOT imply", () => {
    const targets = { ttft: p99(500), tpot: p99(50) };
    expect(missedBy({ ...whole, elapsedMs: 5500 }, targets)).toBe("good");
    expect(missedBy({ ...whole, elapsedMs: 5501 }, targets)).toBe("e2e");
  });
});

describe("judgeAttainment(), requests that do not come to their end", () => {
  const gone = {
    ending: "client-gone",
    e2eMs: undefined,
    ttftMs: undefined,
    decodeMs: undefined,
    outputTokens: 0,
    longestGapMs: 0,
    lateTokens: 0,
  } as const;
  const goneMidStream = { ...gone, ttftMs: 100, decodeMs: 50, outputTokens: 2 };

  test("a failed one misses everything, whatever it had delivered", () => {
    expect(missedBy({ ending: "failed", e2eMs: undefined })).toBe("failed");
  });

  test("one whose client left before any deadline had passed is excluded", () => {
    expect(missedBy({ ...gone, elapsedMs: 500 })).toBe("excluded");
    expect(missedBy({ ...goneMidStream, elapsedMs: 200 })).toBe("excluded");
  });

  test("one whose client left later is judged on what it had by then", () => {
    expect(missedBy({ ...gone, elapsedMs: 501 })).toBe("ttft");
    expect(missedBy({ ...goneMidStream, elapsedMs: 501 })).toBe("good");
    expect(missedBy({ ...goneMidStream, elapsedMs: 501, longestGapMs: 351 })).toBe("tbt");
    expect(missedBy({ ...goneMidStream, elapsedMs: 9001 })).toBe("e2e");
  });

  test("where no TTFT is promised the second token has the first deadline", () => {
    expect(missedBy({ ...goneMidStream, elapsedMs: 1150 }, { tpot: p99(50) })).toBe("excluded");
    expect(missedBy({ ...goneMidStream, elapsedMs: 1151 }, { tpot: p99(50) })).toBe("good");
    expect(missedBy({ ...goneMidStream, elapsedMs: 300 }, { tbtMaxMs: 200 })).toBe("excluded");
    expect(missedBy({ ...goneMidStream, elapsedMs: 301 }, { tbtMaxMs: 200 })).toBe("good");
  });

  test("a whole answer has its only deadline at its end", () => {
    const whole = { ...gone, isStreamed: false };
    expect(missedBy({ ...whole, elapsedMs: 9000 })).toBe("excluded");
    expect(missedBy({ ...whole, elapsedMs: 9001 })).toBe("e2e");
  });
});

describe("judgeAttainment(), laws", () => {
  const durationMs = fc.double({ min: 0, max: 20_000, noNaN: true });
  const timeline = fc.record<RequestTimeline>({
    isStreamed: fc.boolean(),
    promptTokens: fc.option(fc.nat(10_000), { nil: undefined }),
    ttftMs: fc.option(durationMs, { nil: undefined }),
    e2eMs: durationMs,
    elapsedMs: durationMs,
    decodeMs: durationMs,
    outputTokens: fc.nat(500),
    longestGapMs: durationMs,
    lateTokens: fc.nat(10),
    queuedMs: durationMs,
    ending: fc.constantFrom("stop", "length", "tool_calls", "client-gone", "failed"),
    isDegraded: fc.boolean(),
  });

  test("what misses a loose promise misses a tight one too", () => {
    fc.assert(
      fc.property(timeline, fc.double({ min: 1, max: 10, noNaN: true }), (request, ratio) => {
        const loose: SloTargets = {
          ttft: p99(500 * ratio),
          tpot: p99(50 * ratio),
          e2e: p99(9000 * ratio),
          tbtMaxMs: 200 * ratio,
        };
        const missedLoose = judgeAttainment(request, loose).missed;
        expect(judgeAttainment(request, TARGETS).missed).toEqual(
          expect.arrayContaining([...missedLoose]),
        );
      }),
    );
  });

  test("only a miss has metrics, and degradation is always told", () => {
    fc.assert(
      fc.property(timeline, (request) => {
        const { kind, missed, isDegraded } = judgeAttainment(request, TARGETS);
        expect(missed.length > 0).toBe(kind === "missed");
        expect(isDegraded).toBe(request.isDegraded);
      }),
    );
  });
});
