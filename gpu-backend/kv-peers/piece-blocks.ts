/** Copied between two steps at once, so that nobody's step waits long for it. */
const PIECE_BYTES = 2 ** 20;

/** How many blocks of a lease are read at once: at least one. */
export function pieceBlocksOf(blockBytes: number): number {
  return Math.max(1, Math.floor(PIECE_BYTES / blockBytes));
}
