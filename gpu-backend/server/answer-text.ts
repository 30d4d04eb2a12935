import type { Detokenizer } from "../engine/tokenizer/detokenizer.ts";
import type { StopStrings } from "../engine/tokenizer/stop-strings.ts";

export interface AnswerTextOptions {
  readonly detokenizer: Detokenizer;
  readonly stopStrings: StopStrings;
  /** Tokens that end an answer and are no text of it. */
  readonly endTokenIds: ReadonlySet<number>;
}

/**
 * The text of one answer, token by token, up to a stop string.
 *
 * The token that completes a stop string is the last one counted, however many more the engine had
 * computed when that was noticed: so the same request costs the same, streamed or not.
 */
export class AnswerText {
  readonly #options: AnswerTextOptions;
  #outputTokens = 0;
  #isStopped = false;

  constructor(options: AnswerTextOptions) {
    this.#options = options;
  }

  /** Tokens up to and including the one that ended the text. */
  get outputTokens(): number {
    return this.#outputTokens;
  }

  /** True once a stop string was found: nothing that follows belongs to the answer. */
  get isStopped(): boolean {
    return this.#isStopped;
  }

  /** Returns the text that is certain now: it may belong to earlier tokens, or be empty. */
  push(tokenId: number): string {
    if (this.#isStopped) return "";
    this.#outputTokens += 1;
    if (this.#options.endTokenIds.has(tokenId)) return "";
    return this.#search(this.#options.detokenizer.push(tokenId));
  }

  /** Returns the text that was held back and now will not become a character or a stop string. */
  end(): string {
    if (this.#isStopped) return "";
    const text = this.#search(this.#options.detokenizer.end());
    return this.#isStopped ? text : text + this.#options.stopStrings.end();
  }

  #search(text: string): string {
    const found = this.#options.stopStrings.push(text);
    this.#isStopped = found.stopped;
    return found.text;
  }
}
