/** A prompt's hashes are taken behind every so many bytes of its canonical form. */
export const CHAIN_BLOCK_BYTES = 512;
/** Longer prompts are told apart no further. */
export const CHAIN_BLOCKS_MAX = 256;
/** Sixteen bytes as base64url. */
const HASH_LENGTH = 22;

/**
 * By so much of a hash pools and engines name a beginning: 48 bits, so that two of a pool's at most some
 * hundred thousand hardly ever meet. Nothing can be reached by one, and a wrong guess costs time alone.
 */
export const CHAIN_KEY_LENGTH = 8;

/**
 * What one prompt begins with, in names: behind each whole block of its canonical form. Prompts of one owner
 * that begin alike have alike names so far; nobody else's have.
 */
export interface PromptChain {
  /** One a block, without gaps between them: `CHAIN_KEY_LENGTH` characters each. */
  readonly keys: string;
  /** Which part of the prompt each block is, in (0, 1]. */
  readonly blockRatio: number;
}

export const NO_CHAIN: PromptChain = { keys: "", blockRatio: 1 };

/** Names what a prompt of so many bytes begins with by its hashes, the shortest beginning first. */
export function toChain(hashes: readonly string[], promptBytes: number): PromptChain {
  const keys = hashes.map((hash) => hash.slice(0, CHAIN_KEY_LENGTH)).join("");
  return { keys, blockRatio: Math.min(1, CHAIN_BLOCK_BYTES / Math.max(1, promptBytes)) };
}

export function chainLength({ keys }: PromptChain): number {
  return keys.length / CHAIN_KEY_LENGTH;
}

/** Returns the name of the beginning up to the end of a block. */
export function chainKeyAt({ keys }: PromptChain, index: number): string {
  return keys.slice(index * CHAIN_KEY_LENGTH, (index + 1) * CHAIN_KEY_LENGTH);
}

/** Writes the value of `x-gw-chain`: the canonical prompt's bytes, then its hashes without gaps. */
export function encodeChain(hashes: readonly string[], promptBytes: number): string {
  return `${promptBytes}:${hashes.join("")}`;
}

/** Reads what `encodeChain` wrote; `undefined` where it is none. */
export function parseChain(text: string): PromptChain | undefined {
  const [, bytes = "", hashes = ""] = /^(\d{1,9}):([A-Za-z0-9_-]*)$/.exec(text) ?? [undefined];
  const promptBytes = Number(bytes);
  const count = hashes.length / HASH_LENGTH;
  const isWhole = Number.isInteger(count) && count <= CHAIN_BLOCKS_MAX;
  if (bytes === "" || !isWhole || count * CHAIN_BLOCK_BYTES > promptBytes) return undefined;
  const split = Array.from({ length: count }, (_, index) =>
    hashes.slice(index * HASH_LENGTH, (index + 1) * HASH_LENGTH),
  );
  return toChain(split, promptBytes);
}
