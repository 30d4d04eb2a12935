import { assert } from "../../src/base/assert.ts";

/** A bounded number of blocks in memory by hash; the one unused for longest makes room. */
export class MemoryTier {
  readonly blocksMax: number;
  readonly #blockBytes: number;
  /** The longest unused first. */
  readonly #kept = new Map<string, Uint8Array>();

  constructor(limits: { readonly bytesMax: number; readonly blockBytes: number }) {
    this.#blockBytes = limits.blockBytes;
    this.blocksMax = Math.floor(limits.bytesMax / limits.blockBytes);
  }

  get byteLength(): number {
    return this.#kept.size * this.#blockBytes;
  }

  has(hash: string): boolean {
    return this.#kept.has(hash);
  }

  /** Keeps a block that `fill` writes, in memory of its own or of the block that makes room. */
  put(hash: string, fill: (bytes: Uint8Array) => void): void {
    this.touch([hash]);
    if (this.blocksMax === 0 || this.has(hash)) return;
    const bytes = this.#makeRoom() ?? new Uint8Array(this.#blockBytes);
    fill(bytes);
    this.#kept.set(hash, bytes);
  }

  /** Removes a block, which is the caller's from now on; `undefined` if it is not there. */
  take(hash: string): Uint8Array | undefined {
    const bytes = this.#kept.get(hash);
    this.#kept.delete(hash);
    return bytes;
  }

  /** Counts blocks as used, the first of them as used last. Those that are not there are not looked at. */
  touch(hashes: readonly string[]): void {
    for (const hash of hashes.toReversed()) {
      const bytes = this.take(hash);
      if (bytes !== undefined) this.#kept.set(hash, bytes);
    }
  }

  clear(): void {
    this.#kept.clear();
  }

  /** Throws unless it keeps to its bound. */
  checkInvariants(): void {
    assert(this.#kept.size <= this.blocksMax, "A tier keeps no more than its bound");
    for (const bytes of this.#kept.values()) {
      assert(bytes.byteLength === this.#blockBytes, "What is kept are whole blocks");
    }
  }

  /** The memory of the block that made room, once there is no more to be had. */
  #makeRoom(): Uint8Array | undefined {
    if (this.#kept.size < this.blocksMax) return undefined;
    const [oldest] = this.#kept.keys();
    return oldest === undefined ? undefined : this.take(oldest);
  }
}
