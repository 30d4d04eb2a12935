import { expect, test } from "vitest";
import { toAnswerMetrics } from "../../../src/protocol/answer-metrics.ts";

const SPANS = { queueMs: 1.26, prefillMs: 20, ttftMs: 30.04, generationMs: 100, outputTokens: 4 };

test("an answer's metrics are durations to a tenth of a millisecond, and its pace", () => {
  expect(toAnswerMetrics(SPANS)).toEqual({
    queue_time_ms: 1.3,
    prefill_time_ms: 20,
    time_to_first_token_ms: 30,
    generation_time_ms: 100,
    mean_itl_ms: 33.3,
    tokens_per_second: 30,
  });
  const predicted = toAnswerMetrics({ ...SPANS, predictedTtftMs: 45.55 });
  expect(predicted.predicted_ttft_ms).toBeCloseTo(45.6);
});

test.each([
  ["one token", { outputTokens: 1 }],
  ["tokens that all came at once", { generationMs: 0 }],
])("an answer of %s has no pace", (_what, change) => {
  const metrics = toAnswerMetrics({ ...SPANS, ...change });
  expect([metrics.mean_itl_ms, metrics.tokens_per_second]).toEqual([null, null]);
});
