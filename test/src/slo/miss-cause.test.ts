import { describe, expect, test } from "vitest";
import { missCause } from "../../../src/slo/miss-cause.ts";
import type { RequestTimeline } from "../../../src/slo/timeline.ts";

const p99 = (limitMs: number) => ({ percentileRatio: 0.99, limitMs });
const TARGETS = { ttft: p99(500), tpot: p99(30) };

const timeline = (change: Partial<RequestTimeline>): RequestTimeline => ({
  isStreamed: true,
  promptTokens: 10,
  ttftMs: 100,
  e2eMs: 1_000,
  elapsedMs: 1_000,
  decodeMs: 900,
  outputTokens: 101,
  longestGapMs: 30,
  lateTokens: 0,
  queuedMs: 0,
  ending: "stop",
  isDegraded: false,
  ...change,
});

describe("missCause()", () => {
  test.each([
    ["queue", ["ttft"], { ttftMs: 700, queuedMs: 200 }],
    ["prefill", ["ttft"], { ttftMs: 700, queuedMs: 199 }],
    ["prefill", ["ttft", "tpot"], { ttftMs: 700, decodeMs: 9_000 }],
    ["queue", ["ttft"], { ttftMs: undefined, elapsedMs: 900, queuedMs: 900 }],
    ["stall", ["tbt"], { longestGapMs: 2_000 }],
    ["stall", ["tpot"], { decodeMs: 5_000, longestGapMs: 2_000 }],
    ["decode", ["tpot"], { decodeMs: 5_000, longestGapMs: 1_999 }],
    ["replica", ["failed"], { ttftMs: undefined }],
  ] as const)("is %s for %j with %j", (cause, missed, change) => {
    expect(missCause(timeline(change), missed, TARGETS)).toBe(cause);
  });

  test("of a whole answer is its wait, or its pace", () => {
    const targets = { e2e: p99(1_000) };
    const late = { isStreamed: false, elapsedMs: 1_200 };
    expect(missCause(timeline({ ...late, queuedMs: 200 }), ["e2e"], targets)).toBe("queue");
    expect(missCause(timeline({ ...late, queuedMs: 199 }), ["e2e"], targets)).toBe("decode");
  });
});
