import type { RefusalReason, TokenLogprob } from "../engine/generate-request.ts";
import type { EngineEvent } from "../thread-messages.ts";
import type { AnswerText, TextPiece } from "./answer-text.ts";

/** The end of a complete answer. */
export interface FinishedPart {
  readonly kind: "finished";
  readonly reason: "stop" | "length";
  readonly counts: {
    readonly promptTokens: number;
    readonly cachedTokens: number;
    readonly outputTokens: number;
  };
  /** Of those counted the last, that no text before was told with. */
  readonly tokenIds: readonly number[];
}

/** The end of an answer that is not complete. */
export type BrokenPart =
  | { readonly kind: "cancelled" }
  | { readonly kind: "refused"; readonly reason: RefusalReason; readonly message?: string }
  | { readonly kind: "failed"; readonly message: string }
  /** Of one that goes on: a token came out otherwise here than where it was told. */
  | { readonly kind: "diverged" };

/** A token that another engine has told; its log probability is filled in when it is computed again. */
export interface ToldToken {
  readonly tokenId: number;
  readonly logprob?: TokenLogprob;
}

/** Text, and what was asked to be known about its tokens. */
export interface TextPart extends TextPiece {
  readonly kind: "text";
  /**
   * All that have come since the part before, where they alone account for the text up to here; absent
   * where the end of the answer does as well.
   */
  readonly tokenIds: readonly number[] | undefined;
}

/** The log probabilities of the prompt, one a token; the first token has none. */
export interface PromptPart {
  readonly kind: "prompt";
  readonly logprobs: readonly (TokenLogprob | undefined)[];
}

/** What the reader of an answer gets next; a finished or broken part is the last. */
export type AnswerPart = PromptPart | TextPart | FinishedPart | BrokenPart;

/** Whether a part is the end of an answer that is not complete. */
export function isBroken(part: AnswerPart): part is BrokenPart {
  return part.kind !== "prompt" && part.kind !== "text" && part.kind !== "finished";
}

/**
 * One answer between the engine, which says when a token comes, and a client, which reads as fast
 * as it likes.
 *
 * The first token is told even if it has no text yet; after it, only what is new is. What nobody
 * has read is merged into one part, so a slow reader costs the length of the answer and no more.
 */
export class Answer {
  readonly #text: AnswerText;
  readonly #cancel: () => void;
  #prompt: PromptPart | undefined;
  #unreadText: string | undefined;
  #unreadLogprobs: TokenLogprob[] = [];
  #unreadTokenIds: number[] = [];
  /** Tokens told elsewhere that are computed once more, the next first. */
  #again: readonly ToldToken[] = [];
  #isDiverged = false;
  #cachedTokens = 0;
  #ending: FinishedPart | BrokenPart | undefined;
  #isEndingTaken = false;
  #hasFirstToken = false;

  /** `cancel` asks the engine to stop; it is called when a stop string ended the text. */
  constructor(text: AnswerText, cancel: () => void) {
    this.#text = text;
    this.#cancel = cancel;
  }

  /** True once the text is complete, though the engine may not have said so yet. */
  get isComplete(): boolean {
    return this.#text.isStopped || this.#isDiverged || this.#ending !== undefined;
  }

  /** Of its prompt, as far as is known: found cached when it began. */
  get cachedTokens(): number {
    return this.#cachedTokens;
  }

  /** Computed so far, read or not, with those that another engine had computed before. */
  get outputTokens(): number {
    return this.#text.outputTokens;
  }

  /** How the answer ended; undefined while it goes on. */
  get ending(): FinishedPart | BrokenPart | undefined {
    return this.#ending;
  }

  /** Whether there is anything to be read now. */
  get hasPart(): boolean {
    const hasEnding = this.#ending !== undefined && !this.#isEndingTaken;
    return this.#prompt !== undefined || this.#unreadText !== undefined || hasEnding;
  }

  hear(event: EngineEvent): void {
    switch (event.kind) {
      case "started":
        this.#cachedTokens = event.cachedTokens;
        return;
      case "embedded":
        return;
      case "prompt-logprobs":
        this.#prompt = { kind: "prompt", logprobs: event.logprobs };
        return;
      case "token":
        this.#hearToken(event.tokenId, event.logprob);
        return;
      case "finished":
        this.#ending = this.#finish(event);
        return;
      case "refused":
      case "failed":
        this.#ending = event;
    }
  }

  /** Returns the next part, each once; undefined when nothing is there to be read. */
  take(): AnswerPart | undefined {
    const prompt = this.#prompt;
    this.#prompt = undefined;
    if (prompt !== undefined) return prompt;
    const text = this.#unreadText;
    if (text !== undefined) {
      const logprobs = this.#unreadLogprobs;
      this.#unreadText = undefined;
      this.#unreadLogprobs = [];
      const isOfTokens = this.#ending === undefined || this.#ending.kind === "failed";
      const tokenIds = isOfTokens ? this.#takeTokenIds() : undefined;
      return { kind: "text", text, logprobs, tokenIds };
    }
    if (this.#isEndingTaken || this.#ending === undefined) return undefined;
    this.#isEndingTaken = true;
    return this.#ending;
  }

  /** Says which of the tokens heard so far, its last ones, come once more; all of them are told. */
  expectAgain(tokens: readonly ToldToken[]): void {
    this.#again = tokens;
    this.#unreadTokenIds = [];
  }

  #hearToken(tokenId: number, logprob: TokenLogprob | undefined): void {
    const [told, ...others] = this.#again;
    if (told !== undefined) {
      this.#again = others;
      this.#hearAgain(told, tokenId, logprob);
      return;
    }
    if (this.#text.isStopped || this.#isDiverged) return;
    this.#unreadTokenIds.push(tokenId);
    const piece = this.#text.push(tokenId, logprob);
    this.#keep(piece, { evenEmpty: !this.#hasFirstToken });
    this.#hasFirstToken = true;
    if (this.#text.isStopped) this.#cancel();
  }

  #hearAgain(told: ToldToken, tokenId: number, logprob: TokenLogprob | undefined): void {
    if (told.tokenId !== tokenId) {
      this.#again = [];
      this.#isDiverged = true;
    }
    if (told.logprob !== undefined) Object.assign(told.logprob, logprob);
    const isOver = this.#isDiverged || (this.#again.length === 0 && this.#text.isStopped);
    if (isOver) this.#cancel();
  }

  #takeTokenIds(): readonly number[] {
    const tokenIds = this.#unreadTokenIds;
    this.#unreadTokenIds = [];
    return tokenIds;
  }

  #keep({ text, logprobs }: TextPiece, options: { readonly evenEmpty: boolean }): void {
    this.#unreadLogprobs.push(...logprobs);
    if (text === "" && logprobs.length === 0 && !options.evenEmpty) return;
    this.#unreadText = (this.#unreadText ?? "") + text;
  }

  #finish(event: Extract<EngineEvent, { kind: "finished" }>): FinishedPart | BrokenPart {
    const isCancelled = event.reason === "cancelled" && !this.#text.isStopped;
    this.#keep(this.#text.end(), { evenEmpty: false });
    if (this.#isDiverged) return { kind: "diverged" };
    if (isCancelled) return { kind: "cancelled" };
    const { promptTokens, cachedTokens } = event;
    const { isStopped, outputTokens } = this.#text;
    return {
      kind: "finished",
      reason: !isStopped && event.reason === "length" ? "length" : "stop",
      counts: { promptTokens, cachedTokens, outputTokens },
      tokenIds: this.#takeTokenIds(),
    };
  }
}
