import type { TokenBytes } from "../tokenizer/token-bytes.ts";

/** The tokens as the grammar library needs them, in memory that all threads share. */
export interface Vocabulary {
  /** The bytes of all tokens, one behind the other. */
  readonly bytes: Uint8Array;
  /** Token `id` ends before the byte `ends[id]`. One entry a logit. */
  readonly ends: Uint32Array;
  /** Tokens that may stand only where the text is complete. */
  readonly endTokenIds: readonly number[];
}

/**
 * Copies the tokens into shared memory. Special tokens have no bytes, and what has none is never
 * allowed within text, nor are logits beyond the tokenizer's ids.
 */
export function shareVocabulary(
  tokenBytes: TokenBytes,
  options: { readonly logitCount: number; readonly endTokenIds: readonly number[] },
): Vocabulary {
  const ends = new Uint32Array(new SharedArrayBuffer(options.logitCount * 4));
  let byteCount = 0;
  for (let id = 0; id < options.logitCount; id += 1) {
    byteCount += tokenBytes.of(id).length;
    ends[id] = byteCount;
  }
  const bytes = new Uint8Array(new SharedArrayBuffer(byteCount));
  for (let id = 0; id < options.logitCount; id += 1) {
    bytes.set(tokenBytes.of(id), ends[id - 1] ?? 0);
  }
  return { bytes, ends, endTokenIds: options.endTokenIds };
}
