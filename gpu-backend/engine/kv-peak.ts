/** What one sequence holds of the KV pool, and how far it is going to grow. */
export interface KvGrowth {
  /** The blocks it holds, or would share with others that hold them. */
  readonly blocks: readonly number[];
  /** Tokens that need a slot now. */
  readonly knownTokens: number;
  /** Steps until it ends: each but the last adds a token that needs a slot. */
  readonly leftTokens: number;
}

/**
 * The most blocks that sequences come to hold which all grow by a token a step and let go when they end.
 *
 * That is when one of them ends: just before, all that outlast it are there and have grown as much as
 * it has. A block that several share counts once, as long as one of them holds it. A prefill of several
 * steps ends later than this assumes. Quadratic in the number of sequences.
 */
export function peakBlocks(sequences: readonly KvGrowth[], blockTokens: number): number {
  const byEnd = sequences.toSorted((a, b) => b.leftTokens - a.leftTokens);
  const heldBlocks = new Set<number>();
  let peak = 0;
  for (const [index, { blocks, leftTokens }] of byEnd.entries()) {
    for (const block of blocks) heldBlocks.add(block);
    const newTokens = Math.max(0, leftTokens - 1);
    const newBlocks = byEnd.slice(0, index + 1).reduce((sum, other) => {
      const tableBlocks = Math.ceil((other.knownTokens + newTokens) / blockTokens);
      return sum + Math.max(0, tableBlocks - other.blocks.length);
    }, 0);
    peak = Math.max(peak, heldBlocks.size + newBlocks);
  }
  return peak;
}
