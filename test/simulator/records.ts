import type { Attainment } from "../../src/slo/attainment.ts";
import type { RequestTimeline } from "../../src/slo/timeline.ts";
import type { RequestRecord } from "../../simulator/request-record.ts";

export const GOOD: Attainment = { kind: "good", missed: [], isDegraded: false };

/** Of a stream that had its first token after 200 ms. */
export function aTimeline(change: Partial<RequestTimeline> = {}): RequestTimeline {
  return {
    isStreamed: true,
    promptTokens: 100,
    ttftMs: 200,
    e2eMs: 1200,
    elapsedMs: 1200,
    decodeMs: 1000,
    outputTokens: 101,
    longestGapMs: 20,
    lateTokens: 0,
    queuedMs: 0,
    ending: "stop",
    isDegraded: false,
    ...change,
  };
}

/** Of a request in profile that was admitted and had all it was promised. */
export function aRecord(change: Partial<RequestRecord> = {}): RequestRecord {
  return {
    spec: {
      atMs: 0,
      tenantIndex: 0,
      promptTokens: 100,
      prefixTokens: 0,
      prefixGroup: 0,
      outputTokens: 101,
    },
    tryNumber: 1,
    arrivedAtMs: 1_000,
    endedAtMs: 2_000,
    verdict: "admitted",
    isInProfile: true,
    rejection: undefined,
    timeline: aTimeline(),
    attainment: GOOD,
    dispatches: 1,
    firstTokenAfterMs: 200,
    cachedTokens: 0,
    ...change,
  };
}
