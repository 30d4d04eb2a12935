import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { copyState } from "../../../src/base/plain-state.ts";
import { TimelineRecorder } from "../../../src/slo/timeline.ts";

const TPOT_MS = 50;
const OPTIONS = {
  arrivedAtMs: 1000,
  uploadMs: 200,
  isStreamed: true,
  targets: { tpot: { percentileRatio: 0.99, limitMs: TPOT_MS } },
};

function aRecorder(change: Partial<typeof OPTIONS> = {}): TimelineRecorder {
  return new TimelineRecorder({ ...OPTIONS, ...change });
}

describe("TimelineRecorder", () => {
  test("durations count from the arrival, less the client's own upload", () => {
    const recorder = aRecorder();
    recorder.queued(30);
    recorder.queued(12);
    recorder.tokens(1, 1500);
    recorder.tokens(2, 1570);
    recorder.end("stop", 1600, { promptTokens: 77 });
    expect(recorder.timeline).toEqual({
      isStreamed: true,
      promptTokens: 77,
      ttftMs: 300,
      e2eMs: 400,
      elapsedMs: 400,
      decodeMs: 70,
      outputTokens: 3,
      longestGapMs: 70,
      lateTokens: 0,
      queuedMs: 42,
      ending: "stop",
      isDegraded: false,
    });
  });

  test("instants before the start and instants that run backwards count as no time", () => {
    const recorder = aRecorder();
    recorder.tokens(1, 1100);
    recorder.tokens(1, 900);
    recorder.end("stop", 800);
    expect(recorder.timeline).toMatchObject({ ttftMs: 0, e2eMs: 0, decodeMs: 0, longestGapMs: 0 });
  });

  test("a first token at the instant 0 is a first token", () => {
    const recorder = aRecorder({ arrivedAtMs: 0, uploadMs: 0 });
    recorder.tokens(1, 0);
    recorder.tokens(1, 40);
    recorder.end("stop", 40);
    expect(recorder.timeline).toMatchObject({ ttftMs: 0, decodeMs: 40, longestGapMs: 40 });
  });

  test("an answer without tokens has no TTFT and no decode", () => {
    const recorder = aRecorder();
    recorder.tokens(0, 1300);
    recorder.end("failed", 1500);
    const { ttftMs, decodeMs, e2eMs, elapsedMs } = recorder.timeline;
    expect([ttftMs, decodeMs, e2eMs]).toEqual([undefined, undefined, undefined]);
    expect(elapsedMs).toBe(300);
  });

  test("an engine's exact counts replace what was seen", () => {
    const recorder = aRecorder();
    recorder.tokens(3, 1300);
    recorder.end("length", 1300, { outputTokens: 5 });
    expect(recorder.timeline.outputTokens).toBe(5);
  });

  test("only the first end counts", () => {
    const recorder = aRecorder();
    recorder.end("client-gone", 1500);
    recorder.end("failed", 9000);
    expect(recorder.timeline).toMatchObject({ ending: "client-gone", elapsedMs: 300 });
  });

  test("no token comes after the end, and nothing is read before it", () => {
    const recorder = aRecorder();
    expect(() => recorder.timeline).toThrow("read after its end");
    recorder.end("stop", 1500);
    expect(() => recorder.tokens(1, 1600)).toThrow("after the end");
  });

  test.each([
    ["client-gone", 800],
    ["failed", 800],
    ["stop", 30],
  ] as const)(
    "an answer that ends by %s after a silence has a longest gap of %i ms",
    (ending, gapMs) => {
      const recorder = aRecorder();
      recorder.tokens(1, 1300);
      recorder.tokens(1, 1330);
      recorder.end(ending, 2130);
      expect(recorder.timeline.longestGapMs).toBe(gapMs);
    },
  );

  test("a token is late when it comes more than a second behind its even pace", () => {
    const recorder = aRecorder();
    recorder.tokens(1, 1300);
    recorder.tokens(1, 1300 + TPOT_MS + 1000);
    expect(recorder.state.lateTokens).toBe(0);
    recorder.tokens(1, 1300 + 2 * TPOT_MS + 1001);
    expect(recorder.state.lateTokens).toBe(1);
  });

  test("nothing is late where no TPOT is promised", () => {
    const recorder = new TimelineRecorder({ ...OPTIONS, targets: {} });
    recorder.tokens(1, 1300);
    recorder.tokens(1, 99_000);
    expect(recorder.state.lateTokens).toBe(0);
  });

  test("it agrees with a count token by token", () => {
    const chunks = fc.array(
      fc.record({ tokens: fc.integer({ min: 1, max: 40 }), gapMs: fc.nat(3000) }),
      { minLength: 1, maxLength: 30 },
    );
    fc.assert(
      fc.property(chunks, (sequence) => {
        const recorder = aRecorder();
        const instants: number[] = [];
        let nowMs = 1200;
        for (const { tokens, gapMs } of sequence) {
          nowMs += gapMs;
          recorder.tokens(tokens, nowMs);
          recorder.checkInvariants();
          for (let i = 0; i < tokens; i += 1) instants.push(nowMs);
        }
        recorder.end("stop", nowMs);
        const [firstAtMs = 0] = instants;
        const gaps = instants.map((atMs, k) => atMs - (instants[k - 1] ?? atMs));
        expect(recorder.timeline).toMatchObject({
          ttftMs: firstAtMs - 1200,
          decodeMs: nowMs - firstAtMs,
          outputTokens: instants.length,
          longestGapMs: Math.max(...gaps),
          lateTokens: instants.filter((atMs, k) => atMs > firstAtMs + k * TPOT_MS + 1000).length,
        });
      }),
    );
  });

  test("one that goes on from a copy of its state tells the same as the original", () => {
    const original = aRecorder();
    original.queued(5);
    original.tokens(2, 1300);
    original.degraded();
    const revived = new TimelineRecorder(OPTIONS, copyState(original.state));
    for (const recorder of [original, revived]) {
      recorder.tokens(3, 4000);
      recorder.end("length", 4100, { promptTokens: 9 });
    }
    expect(revived.timeline).toEqual(original.timeline);
    expect(revived.timeline).toMatchObject({ lateTokens: 3, isDegraded: true, outputTokens: 5 });
  });
});
