import {
  type Completion,
  completion,
  type CompletionLogprobs,
} from "../../src/protocol/completion-response.ts";
import type { AnswerIdentity, AnswerTotals } from "../../src/protocol/usage.ts";
import type { TokenLogprob } from "../engine/generate-request.ts";
import type { FinishedPart, PromptPart, TextPart } from "./answer.ts";
import type { AnswerFormat, CollectedChoice } from "./answer-format.ts";
import { LegacyLogprobs } from "./legacy-logprobs.ts";
import type { ServedModel } from "./app-context.ts";

/** A prompt as its echo shows it. */
export interface EchoedPrompt {
  readonly text: string;
  readonly tokenIds: readonly number[];
}

export interface CompletionFormatOptions {
  readonly identity: AnswerIdentity;
  readonly model: Pick<ServedModel, "tokenBytes" | "tokenLabels">;
  readonly includesUsage: boolean;
  readonly includesLogprobs: boolean;
  /** Of each choice the prompt that its text begins with; undefined without echo. */
  readonly echoOf: (choice: number) => EchoedPrompt | undefined;
}

/** What a stream has told of one choice. */
interface ToldChoice {
  readonly logprobs: LegacyLogprobs;
  hasEcho: boolean;
}

/** Writes answers as the older API has them: one text a choice, with the prompt before it or not. */
export class CompletionFormat implements AnswerFormat {
  readonly #options: CompletionFormatOptions;
  readonly #told = new Map<number, ToldChoice>();

  constructor(options: CompletionFormatOptions) {
    this.#options = options;
  }

  chunksOf(choice: number, part: PromptPart | TextPart | FinishedPart): readonly Completion[] {
    const told = this.#toldOf(choice);
    switch (part.kind) {
      case "prompt":
        return this.#echo(choice, told, part.logprobs);
      case "text":
        return [
          ...this.#echo(choice, told, []),
          this.#chunk(choice, part.text, this.#logprobsOf(told.logprobs, part.logprobs)),
        ];
      case "finished":
        return [...this.#echo(choice, told, []), this.#chunk(choice, "", null, part.reason)];
    }
    return part satisfies never;
  }

  /** Every text has a chunk, and what is known of its tokens with it. */
  untoldLogprobs(): number {
    return 0;
  }

  totalsChunk(totals: AnswerTotals): Completion {
    return completion(this.#options.identity, [], totals);
  }

  bodyOf(choices: readonly CollectedChoice[], totals: AnswerTotals): Completion {
    const written = choices.map((choice, index) => {
      const echo = this.#options.echoOf(index);
      const logprobs = new LegacyLogprobs(this.#options.model);
      const listed = [
        ...(echo === undefined ? [] : pairPrompt(echo, choice.promptLogprobs)),
        ...pairOutput(choice.logprobs),
      ];
      return {
        index,
        text: (echo?.text ?? "") + choice.text,
        logprobs: this.#options.includesLogprobs ? logprobs.push(listed) : null,
        finish_reason: choice.reason,
      };
    });
    return completion(this.#options.identity, written, totals);
  }

  /** The prompt of a choice as a chunk of its own, before anything else of it. */
  #echo(
    choice: number,
    told: ToldChoice,
    promptLogprobs: PromptPart["logprobs"],
  ): readonly Completion[] {
    const echo = this.#options.echoOf(choice);
    if (echo === undefined || told.hasEcho) return [];
    told.hasEcho = true;
    const logprobs = this.#options.includesLogprobs
      ? told.logprobs.push(pairPrompt(echo, promptLogprobs))
      : null;
    return [this.#chunk(choice, echo.text, logprobs)];
  }

  #logprobsOf(
    legacy: LegacyLogprobs,
    logprobs: readonly TokenLogprob[],
  ): CompletionLogprobs | null {
    return this.#options.includesLogprobs ? legacy.push(pairOutput(logprobs)) : null;
  }

  #chunk(
    index: number,
    text: string,
    logprobs: CompletionLogprobs | null,
    reason: FinishedPart["reason"] | null = null,
  ): Completion {
    const choice = { index, text, logprobs, finish_reason: reason };
    const { identity, includesUsage } = this.#options;
    return completion(identity, [choice], includesUsage ? { usage: null } : undefined);
  }

  #toldOf(choice: number): ToldChoice {
    const told = this.#told.get(choice) ?? {
      logprobs: new LegacyLogprobs(this.#options.model),
      hasEcho: false,
    };
    this.#told.set(choice, told);
    return told;
  }
}

function pairPrompt(echo: EchoedPrompt, logprobs: PromptPart["logprobs"]) {
  return echo.tokenIds.map((tokenId, index) => ({ tokenId, logprob: logprobs[index] }));
}

function pairOutput(logprobs: readonly TokenLogprob[]) {
  return logprobs.map((logprob) => ({ tokenId: logprob.tokenId, logprob }));
}
