const NAME_LENGTH_MAX = 64;

/**
 * Returns the candidate that a mistyped name most likely meant, or undefined if none is near: at
 * most one edit in three characters, where swapping two neighbours is one edit. The first of equally
 * near ones wins.
 */
export function closestName(name: string, candidates: Iterable<string>): string | undefined {
  if (name.length > NAME_LENGTH_MAX) return undefined;
  let closest: string | undefined;
  let fewestEdits = Math.max(1, Math.floor(name.length / 3)) + 1;
  for (const candidate of candidates) {
    // The difference in length is a lower bound, and it keeps long candidates cheap.
    if (Math.abs(candidate.length - name.length) >= fewestEdits) continue;
    const edits = countEdits(name.toLowerCase(), candidate.toLowerCase());
    if (edits < fewestEdits) {
      closest = candidate;
      fewestEdits = edits;
    }
  }
  return closest;
}

/** Counts insertions, deletions, replacements and swaps of neighbours (optimal string alignment). */
function countEdits(from: string, to: string): number {
  let beforePrevious: number[] = [];
  let previous = Array.from({ length: to.length + 1 }, (_, index) => index);
  for (let i = 1; i <= from.length; i += 1) {
    const current = [i];
    for (let j = 1; j <= to.length; j += 1) {
      const isSame = from[i - 1] === to[j - 1];
      const isSwap = i > 1 && j > 1 && from[i - 1] === to[j - 2] && from[i - 2] === to[j - 1];
      current[j] = Math.min(
        (previous[j] ?? 0) + 1,
        (current[j - 1] ?? 0) + 1,
        (previous[j - 1] ?? 0) + (isSame ? 0 : 1),
        isSwap ? (beforePrevious[j - 2] ?? 0) + 1 : Number.POSITIVE_INFINITY,
      );
    }
    beforePrevious = previous;
    previous = current;
  }
  return previous[to.length] ?? 0;
}
