/** Why an answer ended: at its natural end or a stop string, or at a limit. */
export type FinishReason = "stop" | "length";

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

/** The whole answer of a request that did not stream. */
export interface ChatCompletion {
  readonly id: string;
  readonly object: "chat.completion";
  /** Seconds since the epoch. */
  readonly created: number;
  readonly model: string;
  readonly choices: readonly ChatChoice[];
  readonly usage: Usage;
  readonly service_tier: "default";
  readonly system_fingerprint: string;
}

interface ChatChoice {
  readonly index: number;
  readonly message: {
    readonly role: "assistant";
    readonly content: string;
    readonly refusal: null;
  };
  readonly logprobs: null;
  readonly finish_reason: FinishReason;
}

/** One frame of a streamed answer. The usage chunk is the one without choices. */
export interface ChatCompletionChunk {
  readonly id: string;
  readonly object: "chat.completion.chunk";
  /** Seconds since the epoch. */
  readonly created: number;
  readonly model: string;
  readonly choices: readonly ChunkChoice[];
  /** Present only if the client asked for usage: null until the last chunk. */
  readonly usage?: Usage | null;
  readonly service_tier: "default";
  readonly system_fingerprint: string;
}

interface ChunkChoice {
  readonly index: number;
  readonly delta: ChatDelta;
  readonly logprobs: null;
  readonly finish_reason: FinishReason | null;
}

/** What one chunk adds to the message; the first one of an answer names the role. */
interface ChatDelta {
  readonly role?: "assistant";
  readonly content?: string;
}

/** What all chunks of one answer share. */
export interface AnswerIdentity {
  /** `chatcmpl-` and something unique. */
  readonly id: string;
  readonly createdAtSeconds: number;
  readonly model: string;
  /** Changes when the same seed may give another text: with the weights or the arithmetic. */
  readonly systemFingerprint: string;
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

/** Builds the answer of a request that did not stream. */
export function chatCompletion(
  identity: AnswerIdentity,
  answer: {
    readonly content: string;
    readonly finishReason: FinishReason;
    readonly usage: Usage;
  },
): ChatCompletion {
  return {
    id: identity.id,
    object: "chat.completion",
    created: identity.createdAtSeconds,
    model: identity.model,
    choices: [
      {
        index: 0,
        message: { role: "assistant", content: answer.content, refusal: null },
        logprobs: null,
        finish_reason: answer.finishReason,
      },
    ],
    usage: answer.usage,
    service_tier: "default",
    system_fingerprint: identity.systemFingerprint,
  };
}

/** Builds the chunks of one streamed answer; the caller keeps their order. */
export interface ChatChunks {
  /** Text, and with the first of it the role: benchmarks take the first chunk for the first token. */
  delta(delta: ChatDelta): ChatCompletionChunk;
  /** The last chunk with a choice. */
  finish(reason: FinishReason): ChatCompletionChunk;
  /** Follows `finish` if the client asked for usage; its `choices` are empty, which clients test. */
  usage(usage: Usage): ChatCompletionChunk;
}

/** Returns the chunk builder of one answer. With `includesUsage`, other chunks say `usage: null`. */
export function chatChunks(
  identity: AnswerIdentity,
  options: { readonly includesUsage: boolean },
): ChatChunks {
  const chunk = (choices: readonly ChunkChoice[], usage: Usage | null): ChatCompletionChunk => ({
    id: identity.id,
    object: "chat.completion.chunk",
    created: identity.createdAtSeconds,
    model: identity.model,
    choices,
    ...(options.includesUsage && { usage }),
    service_tier: "default",
    system_fingerprint: identity.systemFingerprint,
  });
  return {
    delta: (delta) => chunk([choice(delta, null)], null),
    finish: (reason) => chunk([choice({}, reason)], null),
    usage: (usage) => chunk([], usage),
  };
}

function choice(delta: ChatDelta, finishReason: FinishReason | null): ChunkChoice {
  return { index: 0, delta, logprobs: null, finish_reason: finishReason };
}
