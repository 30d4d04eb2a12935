import type { TokenBytes } from "../engine/tokenizer/token-bytes.ts";
import type { SpecialTokens } from "../engine/tokenizer/special-tokens.ts";

/** What the API calls one token. */
export interface TokenLabel {
  /** Different tokens have different ones, except where two have the same bytes. */
  readonly token: string;
  /** Null for special tokens, which are no text. */
  readonly bytes: readonly number[] | null;
}

const UTF8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Names tokens: by their text, or as `bytes:\xf0\x9f` where they are no whole characters. */
export class TokenLabels {
  readonly #tokenBytes: TokenBytes;
  readonly #specialTokens: SpecialTokens;

  constructor(tokenBytes: TokenBytes, specialTokens: SpecialTokens) {
    this.#tokenBytes = tokenBytes;
    this.#specialTokens = specialTokens;
  }

  of(tokenId: number): TokenLabel {
    const special = this.#specialTokens.contentOf(tokenId);
    if (special !== undefined) return { token: special, bytes: null };
    const bytes = [...this.#tokenBytes.of(tokenId)];
    return { token: decode(bytes) ?? escape(bytes), bytes };
  }
}

function decode(bytes: readonly number[]): string | undefined {
  try {
    return UTF8.decode(Uint8Array.from(bytes));
  } catch {
    return undefined;
  }
}

function escape(bytes: readonly number[]): string {
  const escapes = bytes.map((byte) => `\\x${byte.toString(16).padStart(2, "0")}`);
  return `bytes:${escapes.join("")}`;
}
