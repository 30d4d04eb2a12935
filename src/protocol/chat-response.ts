import type { AnswerMetrics } from "./answer-metrics.ts";
import type { AnswerIdentity, AnswerTotals, Usage } from "./usage.ts";

/** Why a choice ended: at its natural end or a stop string, at a limit, or to have tools called. */
export type FinishReason = "stop" | "length" | "tool_calls";

/** The log probability of one token. */
interface RankedToken {
  readonly token: string;
  readonly logprob: number;
  /** Null for tokens that are no text at all. */
  readonly bytes: readonly number[] | null;
}

/** One token of an answer, with the tokens that were most probable in its place. */
export interface ChatTokenLogprob extends RankedToken {
  readonly top_logprobs: readonly RankedToken[];
}

/** The log probabilities of the tokens that a text came from. */
interface ChatLogprobs {
  readonly content: readonly ChatTokenLogprob[];
  readonly refusal: null;
}

/** A call of one of the request's tools. */
export interface ToolCall {
  readonly id: string;
  readonly type: "function";
  readonly function: { readonly name: string; readonly arguments: string };
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
  readonly metrics?: AnswerMetrics;
  readonly service_tier: "default";
  readonly system_fingerprint: string;
}

interface ChatChoice {
  readonly index: number;
  readonly message: {
    readonly role: "assistant";
    /** Null in a message that only calls tools. */
    readonly content: string | null;
    readonly refusal: null;
    readonly tool_calls?: readonly ToolCall[];
  };
  readonly logprobs: ChatLogprobs | null;
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
  readonly metrics?: AnswerMetrics;
  readonly service_tier: "default";
  readonly system_fingerprint: string;
}

interface ChunkChoice {
  readonly index: number;
  readonly delta: ChatDelta;
  readonly logprobs: ChatLogprobs | null;
  readonly finish_reason: FinishReason | null;
}

/** What one chunk adds to the message; the first one of a choice names the role. */
export interface ChatDelta {
  readonly role?: "assistant";
  readonly content?: string;
  readonly tool_calls?: readonly ToolCallDelta[];
}

/** A piece of a tool call. The first one of a call has its id, type and name, none after it has. */
interface ToolCallDelta {
  readonly index: number;
  readonly id?: string;
  readonly type?: "function";
  readonly function: { readonly name?: string; readonly arguments: string };
}

/** One choice as it ended. */
export interface FinishedChoice {
  readonly content: string | null;
  readonly toolCalls: readonly ToolCall[];
  /** Null unless the client asked for them. */
  readonly logprobs: readonly ChatTokenLogprob[] | null;
  readonly finishReason: FinishReason;
}

/** Builds the answer of a request that did not stream, its choices in order. */
export function chatCompletion(
  identity: AnswerIdentity,
  choices: readonly FinishedChoice[],
  { usage, metrics }: AnswerTotals,
): ChatCompletion {
  return {
    id: identity.id,
    object: "chat.completion",
    created: identity.createdAtSeconds,
    model: identity.model,
    choices: choices.map((choice, index) => ({
      index,
      message: {
        role: "assistant",
        content: choice.content,
        refusal: null,
        ...(choice.toolCalls.length > 0 && { tool_calls: choice.toolCalls }),
      },
      logprobs: toLogprobs(choice.logprobs),
      finish_reason: choice.finishReason,
    })),
    usage,
    ...(metrics && { metrics }),
    service_tier: "default",
    system_fingerprint: identity.systemFingerprint,
  };
}

/** Builds the chunks of one streamed answer; the caller keeps their order. */
export interface ChatChunks {
  /** Text or calls, and with the first the role: benchmarks take the first chunk for the first token. */
  delta(
    index: number,
    delta: ChatDelta,
    logprobs?: readonly ChatTokenLogprob[] | null,
  ): ChatCompletionChunk;
  /** The last chunk of a choice. */
  finish(index: number, reason: FinishReason): ChatCompletionChunk;
  /** Follows the last `finish` if the client asked for usage; clients test that it has no choices. */
  totals(totals: AnswerTotals): ChatCompletionChunk;
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
    delta: (index, delta, logprobs = null) =>
      chunk([{ index, delta, logprobs: toLogprobs(logprobs), finish_reason: null }], null),
    finish: (index, reason) =>
      chunk([{ index, delta: {}, logprobs: null, finish_reason: reason }], null),
    totals: ({ usage, metrics }) => ({ ...chunk([], usage), ...(metrics && { metrics }) }),
  };
}

function toLogprobs(content: readonly ChatTokenLogprob[] | null): ChatLogprobs | null {
  return content === null ? null : { content, refusal: null };
}
