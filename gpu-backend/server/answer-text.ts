import type { TokenLogprob } from "../engine/generate-request.ts";
import type { Detokenizer } from "../engine/tokenizer/detokenizer.ts";
import type { StopStrings } from "../engine/tokenizer/stop-strings.ts";

export interface AnswerTextOptions {
  readonly detokenizer: Detokenizer;
  readonly stopStrings: StopStrings;
  /** Tokens that end an answer and are no text of it. */
  readonly silentTokenIds: ReadonlySet<number>;
  /** So many tokens are out before a stop string can end the text. */
  readonly outputTokensMin: number;
}

/** Text that is certain, and the log probabilities of the tokens that are told with it. */
export interface TextPiece {
  readonly text: string;
  readonly logprobs: readonly TokenLogprob[];
}

/** A token's log probability, told once so many characters of the text are. */
interface UntoldLogprob {
  readonly logprob: TokenLogprob;
  readonly fromCharacters: number;
}

/**
 * The text of one answer, token by token, up to a stop string.
 *
 * The token that completes a stop string is the last one counted, however many more the engine had
 * computed when that was noticed: so the same request costs the same, streamed or not. Every token
 * counted has its log probability told, no sooner than its text, and what is held back for a stop
 * string is not betrayed by it.
 */
export class AnswerText {
  readonly #options: AnswerTextOptions;
  readonly #untold: UntoldLogprob[] = [];
  #outputTokens = 0;
  /** Characters that the tokens so far have yielded, and those of them that were told. */
  #foundCharacters = 0;
  #toldCharacters = 0;
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

  /** Returns what is certain now: it may belong to earlier tokens, or be empty. */
  push(tokenId: number, logprob?: TokenLogprob): TextPiece {
    if (this.#isStopped) return { text: "", logprobs: [] };
    const { detokenizer, outputTokensMin, silentTokenIds } = this.#options;
    this.#outputTokens += 1;
    const found = silentTokenIds.has(tokenId) ? "" : detokenizer.push(tokenId);
    this.#foundCharacters += found.length;
    if (logprob !== undefined) {
      // Half a character is told with the other half.
      const fromCharacters = this.#foundCharacters + (detokenizer.isWithinCharacter ? 1 : 0);
      this.#untold.push({ logprob, fromCharacters });
    }
    return this.#tell(this.#search(found, this.#outputTokens <= outputTokensMin));
  }

  /** Returns what was held back and now will not become a character or a stop string. */
  end(): TextPiece {
    if (this.#isStopped) return this.#tell("");
    const { detokenizer, outputTokensMin, stopStrings } = this.#options;
    const text = this.#search(detokenizer.end(), this.#outputTokens <= outputTokensMin);
    return this.#tell(this.#isStopped ? text : text + stopStrings.end(), { isAll: true });
  }

  #search(text: string, isExempt: boolean): string {
    const found = this.#options.stopStrings.push(text, isExempt);
    this.#isStopped = found.stopped;
    return found.text;
  }

  #tell(text: string, options: { readonly isAll?: boolean } = {}): TextPiece {
    this.#toldCharacters += text.length;
    const isAll = options.isAll === true || this.#isStopped;
    const rest = this.#untold.findIndex((entry) => entry.fromCharacters > this.#toldCharacters);
    const told = this.#untold.splice(0, isAll || rest < 0 ? this.#untold.length : rest);
    return { text, logprobs: told.map((entry) => entry.logprob) };
  }
}
