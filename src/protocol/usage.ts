import type { AnswerMetrics } from "./answer-metrics.ts";

/** Counts of one request, as OpenAI's clients read them. */
export interface Usage {
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
  readonly total_tokens: number;
  readonly prompt_tokens_details: {
    readonly cached_tokens: number;
    readonly cache_write_tokens: number;
    readonly audio_tokens: number;
  };
  readonly completion_tokens_details: {
    readonly reasoning_tokens: number;
    readonly audio_tokens: number;
    readonly accepted_prediction_tokens: number;
    readonly rejected_prediction_tokens: number;
  };
}

/** The engine's own counts of one request. */
export interface TokenCounts {
  readonly promptTokens: number;
  /** Prompt tokens found in the prefix cache. */
  readonly cachedTokens: number;
  /** Prompt tokens that this request added to the prefix cache. */
  readonly cacheWriteTokens: number;
  readonly outputTokens: number;
}

/** Writes the engine's counts as the API's `usage`. It has no audio and no hidden reasoning. */
export function toUsage(counts: TokenCounts): Usage {
  return {
    prompt_tokens: counts.promptTokens,
    completion_tokens: counts.outputTokens,
    total_tokens: counts.promptTokens + counts.outputTokens,
    prompt_tokens_details: {
      cached_tokens: counts.cachedTokens,
      cache_write_tokens: counts.cacheWriteTokens,
      audio_tokens: 0,
    },
    completion_tokens_details: {
      reasoning_tokens: 0,
      audio_tokens: 0,
      accepted_prediction_tokens: 0,
      rejected_prediction_tokens: 0,
    },
  };
}

/** What all parts of one answer share. */
export interface AnswerIdentity {
  /** `chatcmpl-` or `cmpl-`, and something unique. */
  readonly id: string;
  readonly createdAtSeconds: number;
  readonly model: string;
  /** Changes when the same seed may give another text: with the weights or the arithmetic. */
  readonly systemFingerprint: string;
}

/** What the end of an answer says of the whole of it. */
export interface AnswerTotals {
  readonly usage: Usage;
  /** Absent unless the client asked for it, and there is one choice to speak of. */
  readonly metrics?: AnswerMetrics;
}
