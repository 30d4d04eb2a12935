import type { TokenBytes } from "../tokenizer/token-bytes.ts";
import { decoyTokens } from "./decoy-tokens.ts";

/** The tokens as the grammar library needs them, in memory that all threads share. */
export interface Vocabulary {
  /** Token ids run below it; what follows are decoys. */
  readonly logitCount: number;
  /** The bytes of all tokens, one behind the other. */
  readonly bytes: Uint8Array;
  /** Token `id` ends before the byte `ends[id]`. */
  readonly ends: Uint32Array;
  /** Tokens that may stand only where the text is complete. */
  readonly endTokenIds: readonly number[];
}

/**
 * Copies the tokens into shared memory. What has no bytes is never allowed within text: special tokens,
 * logits beyond the tokenizer's ids, and here also tokens with a byte that no character has in UTF-8.
 */
export function shareVocabulary(
  tokenBytes: TokenBytes,
  options: { readonly logitCount: number; readonly endTokenIds: readonly number[] },
): Vocabulary {
  const ids = Array.from({ length: options.logitCount }, (_, id) => id);
  const tokens = ids.map((id) => textBytes(tokenBytes, id));
  tokens.push(...decoyTokens(tokens));
  const byteCount = tokens.reduce((sum, token) => sum + token.length, 0);
  const bytes = new Uint8Array(new SharedArrayBuffer(byteCount));
  const ends = new Uint32Array(new SharedArrayBuffer(tokens.length * 4));
  let end = 0;
  for (const [id, token] of tokens.entries()) {
    bytes.set(token, end);
    end += token.length;
    ends[id] = end;
  }
  return { ...options, bytes, ends };
}

function textBytes(tokenBytes: TokenBytes, tokenId: number): Uint8Array {
  const bytes = tokenBytes.of(tokenId);
  return bytes.some(isNeverInText) ? NO_BYTES : bytes;
}

const NO_BYTES = new Uint8Array();

function isNeverInText(byte: number): boolean {
  return byte === 0xc0 || byte === 0xc1 || byte >= 0xf5;
}
