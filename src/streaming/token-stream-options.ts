import type { AnswerMetrics } from "../protocol/answer-metrics.ts";
import type { ModelId } from "../protocol/ids.ts";
import type { InterruptedAnswer } from "./interrupted-answer.ts";

/** What the client asked for, as far as it shapes the stream it gets. */
export interface TokenStreamOptions {
  /** The name the client asked for; it replaces the replica's own in every chunk. */
  readonly modelId: ModelId;
  readonly choiceCount: number;
  /** The service tier that it had, where its chunks say so. */
  readonly serviceTier?: string;
  /** Whether the client wants the chunk with the counts; the gateway itself always asks for it. */
  readonly includeUsage: boolean;
  /** Present where another replica computed the prompt: so much of it was cached at the most. */
  readonly cachedTokensMax?: number;
  /** What the client is told beside the counts of the whole answer; absent: nothing. */
  readonly metricsOf?: (answer: AnswerTimes) => AnswerMetrics | undefined;
  /**
   * Present where the replica says which tokens its chunks are from, so that another one can go on: so many
   * are kept at the most.
   */
  readonly tokensKeptMax?: number;
  /** The answer that this replica goes on with. */
  readonly continues?: InterruptedAnswer;
}

/** When the output of a whole answer came, and how much it was. */
export interface AnswerTimes {
  readonly firstTokenAtMs: number;
  readonly lastTokenAtMs: number;
  readonly outputTokens: number;
}
