import { Detokenizer } from "../engine/tokenizer/detokenizer.ts";
import type { TokenBytes } from "../engine/tokenizer/token-bytes.ts";

/** The text of tokens; special tokens have none. Bytes that are no characters are U+FFFD. */
export function decodeTokens(tokenBytes: TokenBytes, tokenIds: readonly number[]): string {
  const detokenizer = new Detokenizer(tokenBytes);
  return tokenIds.map((tokenId) => detokenizer.push(tokenId)).join("") + detokenizer.end();
}
