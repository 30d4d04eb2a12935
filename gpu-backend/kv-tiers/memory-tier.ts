import { assert } from "../../src/base/assert.ts";
import { checksumOf } from "./kv-block-file.ts";

interface Kept {
  readonly bytes: Uint8Array;
  readonly checksum: number;
}

/** A bounded number of blocks in memory by hash; the one unused for longest makes room. */
export class MemoryTier {
  readonly #blocksMax: number;
  readonly #blockBytes: number;
  /** The longest unused first. */
  readonly #kept = new Map<string, Kept>();

  constructor(limits: { readonly bytesMax: number; readonly blockBytes: number }) {
    this.#blockBytes = limits.blockBytes;
    this.#blocksMax = Math.floor(limits.bytesMax / limits.blockBytes);
  }

  get blockCount(): number {
    return this.#kept.size;
  }

  get byteLength(): number {
    return this.#kept.size * this.#blockBytes;
  }

  has(hash: string): boolean {
    return this.#kept.has(hash);
  }

  /** Keeps a block that `fill` writes, in memory of its own or of the block that makes room. */
  put(hash: string, fill: (bytes: Uint8Array) => void): void {
    const known = this.#kept.get(hash);
    if (known !== undefined) {
      this.#touch(hash, known);
      return;
    }
    if (this.#blocksMax === 0) return;
    const bytes = this.#makeRoom() ?? new Uint8Array(this.#blockBytes);
    fill(bytes);
    this.#kept.set(hash, { bytes, checksum: checksumOf(bytes) });
  }

  /** The block, which is the tier's own, or `undefined` if it is not there or not sound any more. */
  get(hash: string): Uint8Array | undefined {
    const kept = this.#kept.get(hash);
    if (kept === undefined) return undefined;
    if (checksumOf(kept.bytes) !== kept.checksum) {
      this.#kept.delete(hash);
      return undefined;
    }
    this.#touch(hash, kept);
    return kept.bytes;
  }

  clear(): void {
    this.#kept.clear();
  }

  /** Throws unless it keeps to its bound. */
  checkInvariants(): void {
    assert(this.#kept.size <= this.#blocksMax, "A tier keeps no more than its bound");
    for (const { bytes } of this.#kept.values()) {
      assert(bytes.byteLength === this.#blockBytes, "What is kept are whole blocks");
    }
  }

  #touch(hash: string, kept: Kept): void {
    this.#kept.delete(hash);
    this.#kept.set(hash, kept);
  }

  /** The memory of the block that made room, once there is no more to be had. */
  #makeRoom(): Uint8Array | undefined {
    if (this.#kept.size < this.#blocksMax) return undefined;
    const [oldest] = this.#kept;
    if (oldest === undefined) return undefined;
    this.#kept.delete(oldest[0]);
    return oldest[1].bytes;
  }
}
