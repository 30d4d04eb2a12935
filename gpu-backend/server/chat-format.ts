import {
  type ChatCompletion,
  type ChatCompletionChunk,
  type ChatChunks,
  chatChunks,
  chatCompletion,
  type ChatTokenLogprob,
} from "../../src/protocol/chat-response.ts";
import type { AnswerIdentity, AnswerTotals } from "../../src/protocol/usage.ts";
import type { TokenLogprob } from "../engine/generate-request.ts";
import type { FinishedPart, PromptPart, TextPart } from "./answer.ts";
import type { AnswerFormat, CollectedChoice } from "./answer-format.ts";
import { chatLogprobs } from "./chat-logprobs.ts";
import type { TokenLabels } from "./token-labels.ts";

export interface ChatFormatOptions {
  readonly identity: AnswerIdentity;
  readonly labels: TokenLabels;
  readonly includesUsage: boolean;
  readonly includesLogprobs: boolean;
}

/** Writes answers as messages of an assistant. */
export class ChatFormat implements AnswerFormat {
  readonly #options: ChatFormatOptions;
  readonly #chunks: ChatChunks;
  readonly #begun = new Set<number>();

  constructor(options: ChatFormatOptions) {
    this.#options = options;
    this.#chunks = chatChunks(options.identity, options);
  }

  chunksOf(
    choice: number,
    part: PromptPart | TextPart | FinishedPart,
  ): readonly ChatCompletionChunk[] {
    switch (part.kind) {
      case "prompt":
        return [];
      case "text": {
        const logprobs = this.#logprobsOf(part.logprobs);
        return [this.#chunks.delta(choice, this.#delta(choice, part.text), logprobs)];
      }
      case "finished":
        return [this.#chunks.finish(choice, part.reason)];
    }
    return part satisfies never;
  }

  totalsChunk(totals: AnswerTotals): ChatCompletionChunk {
    return this.#chunks.totals(totals);
  }

  bodyOf(choices: readonly CollectedChoice[], totals: AnswerTotals): ChatCompletion {
    const finished = choices.map((choice) => ({
      content: choice.text,
      toolCalls: [],
      logprobs: this.#logprobsOf(choice.logprobs),
      finishReason: choice.reason,
    }));
    return chatCompletion(this.#options.identity, finished, totals);
  }

  #delta(choice: number, content: string) {
    if (this.#begun.has(choice)) return { content };
    this.#begun.add(choice);
    return { role: "assistant" as const, content };
  }

  #logprobsOf(logprobs: readonly TokenLogprob[]): readonly ChatTokenLogprob[] | null {
    return this.#options.includesLogprobs ? chatLogprobs(this.#options.labels, logprobs) : null;
  }
}
