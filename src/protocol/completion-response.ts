import type { AnswerMetrics } from "./answer-metrics.ts";
import type { AnswerIdentity, AnswerTotals, Usage } from "./usage.ts";

/** Log probabilities in the shape of the older API: four lists of one entry a token. */
export interface CompletionLogprobs {
  readonly tokens: readonly string[];
  /** Null for the first token of an echoed prompt, which nothing stands before. */
  readonly token_logprobs: readonly (number | null)[];
  readonly top_logprobs: readonly (Readonly<Record<string, number>> | null)[];
  /** Where each token begins in the choice's text, in characters. */
  readonly text_offset: readonly number[];
}

/** A completion, or one chunk of a streamed one; the usage chunk is the one without choices. */
export interface Completion {
  readonly id: string;
  readonly object: "text_completion";
  /** Seconds since the epoch. */
  readonly created: number;
  readonly model: string;
  readonly choices: readonly CompletionChoice[];
  /** Of chunks present only if the client asked for usage: null until the last one. */
  readonly usage?: Usage | null;
  readonly metrics?: AnswerMetrics;
  readonly system_fingerprint: string;
}

interface CompletionChoice {
  readonly index: number;
  readonly text: string;
  readonly logprobs: CompletionLogprobs | null;
  /** Null in a chunk that is not the last one of its choice. */
  readonly finish_reason: "stop" | "length" | null;
}

/** Builds a completion of these choices, or a chunk; without `totals` it has no usage at all. */
export function completion(
  identity: AnswerIdentity,
  choices: readonly CompletionChoice[],
  totals?: AnswerTotals | { readonly usage: null },
): Completion {
  return {
    id: identity.id,
    object: "text_completion",
    created: identity.createdAtSeconds,
    model: identity.model,
    choices,
    ...totals,
    system_fingerprint: identity.systemFingerprint,
  };
}
