import { tokensUntil } from "./tokens-until.ts";

/** KV of one sequence: what it holds, and what its output is expected to add before it ends. */
export interface KvGrowth {
  readonly usedTokens: number;
  readonly leftTokens: number;
}

/** What a request needs of a replica's KV before it can begin, and what it finds. */
export interface KvDemand {
  readonly neededTokens: number;
  readonly freeTokens: number;
  readonly tpotMs: number;
}

/** Where the search for a time begins. */
const GUESS_TOKENS = 16;

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
 * How long until so much KV is expected to be free: sequences grow while they run and give all back when
 * they end. 0 where it is free now, `Infinity` where it never is.
 *
 * Lives are taken as exponential with the mean given, since the first of many ends long before its
 * mean: in the order of the means a full replica would seem to be stuck.
 */
export function kvWaitMs(
  sequences: readonly KvGrowth[],
  { neededTokens, freeTokens, tpotMs }: KvDemand,
): number {
  const missingTokens = neededTokens - freeTokens;
  if (missingTokens <= 0) return 0;
  const tokens = tokensUntil({
    amountBy: (after) => freedTokens(sequences, after),
    target: missingTokens,
    guessTokens: GUESS_TOKENS,
  });
  return tpotMs * tokens;
}

/** By then given back by those that ended, less what the others have grown. */
function freedTokens(sequences: readonly KvGrowth[], tokens: number): number {
  let freed = 0;
  for (const { usedTokens, leftTokens } of sequences) {
    const running = leftTokens > 0 ? Math.exp(-tokens / leftTokens) : 0;
    freed += (1 - running) * usedTokens - running * tokens;
  }
  return freed;
}
