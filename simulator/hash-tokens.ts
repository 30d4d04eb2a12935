import { hashText, mix32 } from "../src/base/hash.ts";

/**
 * Hashes a block of token ids onto its parent, cheaply. A collision costs a simulation nothing but a hit
 * too many; a real engine needs a hash that nobody can make collide.
 */
export function hashTokens(parent: string, tokens: readonly number[] | Int32Array): string {
  let left = hashText(parent);
  let right = left;
  for (const token of tokens) {
    left = Math.imul(left ^ token, 0x01000193);
    right = Math.imul(right + token, 0x5bd1e995);
  }
  return `${mix32(left).toString(36)}${mix32(right ^ (right >>> 15)).toString(36)}`;
}
