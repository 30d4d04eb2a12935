/** Where the time of one answer went, told beside `usage` to whoever asks for it; in ms. */
export interface AnswerMetrics {
  /** From the engine taking the request to its first step; of the gateway the wait in its pool. */
  readonly queue_time_ms: number;
  /** From the first step to the first token; of the gateway from the dispatch on. */
  readonly prefill_time_ms: number;
  /** From the arrival of the request, and so not what vLLM calls by this name. */
  readonly time_to_first_token_ms: number;
  /** By then the gateway expected the first token, at the level that it promises. */
  readonly predicted_ttft_ms?: number;
  /** From the first to the last token. */
  readonly generation_time_ms: number;
  /** Null where there is no gap to measure. */
  readonly mean_itl_ms: number | null;
  /** Null where there is no gap to measure. */
  readonly tokens_per_second: number | null;
}

/** The parts of an answer's time, in ms. */
export interface AnswerSpans {
  readonly queueMs: number;
  readonly prefillMs: number;
  readonly ttftMs: number;
  readonly predictedTtftMs?: number;
  readonly generationMs: number;
  readonly outputTokens: number;
}

/** Writes the parts of an answer's time as its `metrics`, to a tenth of a millisecond. */
export function toAnswerMetrics(spans: AnswerSpans): AnswerMetrics {
  const { predictedTtftMs, generationMs, outputTokens } = spans;
  const hasGaps = outputTokens > 1 && generationMs > 0;
  const gapMs = hasGaps ? generationMs / (outputTokens - 1) : 0;
  return {
    queue_time_ms: toTenths(spans.queueMs),
    prefill_time_ms: toTenths(spans.prefillMs),
    time_to_first_token_ms: toTenths(spans.ttftMs),
    ...(predictedTtftMs !== undefined && { predicted_ttft_ms: toTenths(predictedTtftMs) }),
    generation_time_ms: toTenths(generationMs),
    mean_itl_ms: hasGaps ? toTenths(gapMs) : null,
    tokens_per_second: hasGaps ? toTenths(1000 / gapMs) : null,
  };
}

/** Rounds a duration to a tenth of a millisecond. */
export function toTenths(durationMs: number): number {
  return Math.round(durationMs * 10) / 10;
}
