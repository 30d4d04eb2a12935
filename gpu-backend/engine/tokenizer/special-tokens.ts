import type { AddedToken } from "./tokenizer-schema.ts";

/** A stretch of a prompt: the id of a special token, or text in which nothing is special. */
export type PromptPiece = number | string;

/**
 * Finds special tokens such as `<|end|>` in text, the longest where several begin. Only text that
 * we wrote may be split so: whoever chooses the text chooses the tokens.
 */
export class SpecialTokens {
  readonly #tokens: ReadonlyMap<string, AddedToken>;
  readonly #contents: ReadonlyMap<number, string>;
  readonly #pattern: RegExp;

  constructor(addedTokens: readonly AddedToken[]) {
    const special = addedTokens.filter((token) => token.special);
    this.#tokens = new Map(special.map((token) => [token.content, token]));
    this.#contents = new Map(special.map((token) => [token.id, token.content]));
    const contents = [...this.#tokens.keys()].toSorted((a, b) => b.length - a.length);
    this.#pattern = new RegExp(contents.map(escapePattern).join("|"), "gu");
  }

  /** The texts of all special tokens. */
  contents(): readonly string[] {
    return [...this.#tokens.keys()];
  }

  /** The text of one special token; undefined for all other tokens. */
  contentOf(tokenId: number): string | undefined {
    return this.#contents.get(tokenId);
  }

  /** Splits trusted text at its special tokens; joined, the pieces give the text back. */
  split(text: string): PromptPiece[] {
    const pieces: PromptPiece[] = [];
    let isTrimmedAtStart = false;
    let start = 0;
    const addText = (end: number, isTrimmedAtEnd: boolean) => {
      let piece = text.slice(start, end);
      if (isTrimmedAtStart) piece = piece.trimStart();
      if (isTrimmedAtEnd) piece = piece.trimEnd();
      if (piece !== "") pieces.push(piece);
    };
    for (const match of text.matchAll(this.#pattern)) {
      const token = this.#tokens.get(match[0]);
      // Without any special tokens the pattern matches the empty string, which is none.
      if (token === undefined) continue;
      addText(match.index, token.lstrip);
      pieces.push(token.id);
      start = match.index + match[0].length;
      isTrimmedAtStart = token.rstrip;
    }
    addText(text.length, false);
    return pieces;
  }
}

function escapePattern(text: string): string {
  return text.replaceAll(/[\\^$.*+?()[\]{}|/]/gu, (character) => `\\${character}`);
}
