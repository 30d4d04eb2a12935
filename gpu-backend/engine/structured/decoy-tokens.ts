/**
 * Tokens to be added so that the grammar library finds all of the given ones.
 *
 * It goes through the tokens in the order of their bytes and, when one is forbidden, passes over those
 * that begin with it. But it takes a token that merely contains an earlier one for one that begins
 * with it: where `}</` is forbidden, `}}</` was never looked at. A decoy sorted in between ends that
 * mistake. It holds a byte that no text has, and its id lies beyond the logits.
 */
export function decoyTokens(tokens: readonly Uint8Array[]): Uint8Array[] {
  const decoys: Uint8Array[] = [];
  /** The tokens that the library takes the next one to begin with, the longest last. */
  const beginnings: string[] = [];
  for (const token of sortedByBytes(tokens)) {
    while (!token.includes(beginnings.at(-1) ?? "")) beginnings.pop();
    const mistaken = beginnings.find((beginning) => !token.startsWith(beginning));
    if (mistaken !== undefined) {
      decoys.push(
        Buffer.from(`${token.slice(0, sharedLength(mistaken, token) + 1)}\0\xff`, "latin1"),
      );
      while (!token.startsWith(beginnings.at(-1) ?? "")) beginnings.pop();
    }
    beginnings.push(token);
  }
  return decoys;
}

/** As strings of one character a byte, which JavaScript compares in the order of bytes. */
function sortedByBytes(tokens: readonly Uint8Array[]): string[] {
  return tokens
    .filter((token) => token.length > 0)
    .map((token) => Buffer.from(token).toString("latin1"))
    .toSorted((a, b) => (a < b ? -1 : Number(a > b)));
}

function sharedLength(one: string, other: string): number {
  let length = 0;
  while (length < one.length && one[length] === other[length]) length += 1;
  return length;
}
