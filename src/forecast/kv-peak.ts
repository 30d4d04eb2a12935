/** KV of one sequence: what it holds, and what its output adds before it ends. */
export interface KvGrowth {
  readonly usedTokens: number;
  readonly leftTokens: number;
}

/** What a request asks of a replica's KV, and what it finds there. */
export interface KvDemand {
  readonly neededTokens: number;
  readonly freeTokens: number;
  readonly tpotMs: number;
}

/**
 * The most KV tokens that sequences come to hold which all grow by a token a step and let go when they
 * end (Past-Future scheduler, arXiv 2507.10150): just before one ends, all that outlast it are there
 * and have grown as much as it has.
 */
export function peakKvTokens(sequences: readonly KvGrowth[]): number {
  const byEnd = sequences.toSorted((a, b) => b.leftTokens - a.leftTokens);
  let usedTokens = 0;
  let peakTokens = 0;
  for (const [index, sequence] of byEnd.entries()) {
    usedTokens += sequence.usedTokens;
    peakTokens = Math.max(peakTokens, usedTokens + (index + 1) * sequence.leftTokens);
  }
  return peakTokens;
}

/**
 * How long until so much KV is free: those that run grow by a token each `tpotMs`, and give all back
 * when they end. 0 where it is free now, `Infinity` where not even the end of all of them makes it so.
 */
export function kvWaitMs(
  sequences: readonly KvGrowth[],
  { neededTokens, freeTokens, tpotMs }: KvDemand,
): number {
  if (freeTokens >= neededTokens) return 0;
  const byEnd = sequences.toSorted((a, b) => a.leftTokens - b.leftTokens);
  let free = freeTokens;
  let atTokens = 0;
  for (const [index, { usedTokens, leftTokens }] of byEnd.entries()) {
    free -= (byEnd.length - index) * (leftTokens - atTokens);
    free += usedTokens + leftTokens;
    atTokens = leftTokens;
    if (free >= neededTokens) return atTokens * tpotMs;
  }
  return Infinity;
}
