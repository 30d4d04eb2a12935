import {
  type ChatChunks,
  chatChunks,
  type ChatCompletion,
  chatCompletion,
  type ChatCompletionChunk,
  type ChatDelta,
  type ChatTokenLogprob,
} from "../../src/protocol/chat-response.ts";
import type { AnswerIdentity, AnswerTotals } from "../../src/protocol/usage.ts";
import type { TokenLogprob } from "../engine/generate-request.ts";
import type { FinishedPart, PromptPart, TextPart } from "./answer.ts";
import type { AnswerFormat, CollectedChoice } from "./answer-format.ts";
import { chatLogprobs } from "./chat-logprobs.ts";
import { MessageReader, readMessage } from "./message-reader.ts";
import type { TokenLabels } from "./token-labels.ts";

export interface ChatFormatOptions {
  readonly identity: AnswerIdentity;
  readonly labels: TokenLabels;
  readonly includesUsage: boolean;
  readonly includesLogprobs: boolean;
  readonly mayCallTools: boolean;
}

/** What a stream has told of one choice. */
interface ToldChoice {
  readonly reader: MessageReader;
  /** Of tokens whose text nothing was told of yet. */
  untoldLogprobs: readonly TokenLogprob[];
}

/** Writes answers as messages of an assistant. */
export class ChatFormat implements AnswerFormat {
  readonly #options: ChatFormatOptions;
  readonly #chunks: ChatChunks;
  readonly #told = new Map<number, ToldChoice>();

  constructor(options: ChatFormatOptions) {
    this.#options = options;
    this.#chunks = chatChunks(options.identity, options);
  }

  chunksOf(
    choice: number,
    part: PromptPart | TextPart | FinishedPart,
  ): readonly ChatCompletionChunk[] {
    const told = this.#toldOf(choice);
    switch (part.kind) {
      case "prompt":
        return [];
      case "text":
        told.untoldLogprobs = [...told.untoldLogprobs, ...part.logprobs];
        return this.#tell(choice, told, told.reader.push(part.text));
      case "finished": {
        const rest = told.reader.end();
        // An empty delta carries what has no text to go with.
        const hasMore = rest.length > 0 || told.untoldLogprobs.length > 0;
        const last = hasMore ? this.#tell(choice, told, rest.length > 0 ? rest : [{}]) : [];
        return [...last, this.#chunks.finish(choice, told.reader.finishReason(part.reason))];
      }
    }
    return part satisfies never;
  }

  untoldLogprobs(choice: number): number {
    return this.#toldOf(choice).untoldLogprobs.length;
  }

  totalsChunk(totals: AnswerTotals): ChatCompletionChunk {
    return this.#chunks.totals(totals);
  }

  bodyOf(choices: readonly CollectedChoice[], totals: AnswerTotals): ChatCompletion {
    const finished = choices.map((choice) => {
      const message = readMessage(choice.text, this.#options);
      return {
        content: message.content,
        toolCalls: message.toolCalls,
        logprobs: this.#logprobsOf(choice.logprobs),
        finishReason: message.finishReason(choice.reason),
      };
    });
    return chatCompletion(this.#options.identity, finished, totals);
  }

  /** One chunk a delta; what is known of the tokens goes with the first. */
  #tell(
    choice: number,
    told: ToldChoice,
    deltas: readonly ChatDelta[],
  ): readonly ChatCompletionChunk[] {
    return deltas.map((delta) => {
      const logprobs = this.#logprobsOf(told.untoldLogprobs);
      told.untoldLogprobs = [];
      return this.#chunks.delta(choice, delta, logprobs);
    });
  }

  #toldOf(choice: number): ToldChoice {
    const told = this.#told.get(choice) ?? {
      reader: new MessageReader(this.#options),
      untoldLogprobs: [],
    };
    this.#told.set(choice, told);
    return told;
  }

  #logprobsOf(logprobs: readonly TokenLogprob[]): readonly ChatTokenLogprob[] | null {
    return this.#options.includesLogprobs ? chatLogprobs(this.#options.labels, logprobs) : null;
  }
}
