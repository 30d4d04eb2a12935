const MASKS_READY = 0;
const FAULT = 1;
const HEADER_WORDS = 2;

/** What a wait for a mask came to. */
export type MaskWait = "ready" | "broken" | "timed-out";

/**
 * The mask of one sequence in memory that two threads share: the grammar's writes, the engine's
 * waits and reads. Masks are counted, so that none is ever taken for the one behind it.
 */
export class MaskMemory {
  readonly buffer: SharedArrayBuffer;
  readonly mask: Int32Array;
  readonly #header: Int32Array;

  /** Takes the buffer of another thread's instance, or makes one for so many logits. */
  constructor(source: SharedArrayBuffer | { readonly logitCount: number }) {
    this.buffer =
      source instanceof SharedArrayBuffer
        ? source
        : new SharedArrayBuffer((HEADER_WORDS + Math.ceil(source.logitCount / 32)) * 4);
    this.#header = new Int32Array(this.buffer, 0, HEADER_WORDS);
    this.mask = new Int32Array(this.buffer, HEADER_WORDS * 4);
  }

  /** Copies a mask, without its bits for what lies beyond the logits. */
  write(mask: Int32Array, logitCount: number): void {
    this.mask.set(mask.subarray(0, this.mask.length));
    const last = this.mask.length - 1;
    const unusedBits = this.mask.length * 32 - logitCount;
    this.mask[last] = (((this.mask[last] ?? 0) << unusedBits) >>> unusedBits) | 0;
  }

  /** Tells that `mask` holds the next mask. */
  publish(): void {
    Atomics.add(this.#header, MASKS_READY, 1);
    Atomics.notify(this.#header, MASKS_READY);
  }

  /** Tells that no mask will follow. */
  breakOff(): void {
    Atomics.store(this.#header, FAULT, 1);
    this.publish();
  }

  /** Blocks the thread until so many masks were published. */
  await(maskCount: number, waitMsMax: number): MaskWait {
    for (;;) {
      const ready = Atomics.load(this.#header, MASKS_READY);
      if (Atomics.load(this.#header, FAULT) === 1) return "broken";
      if (ready >= maskCount) return "ready";
      const waited = Atomics.wait(this.#header, MASKS_READY, ready, waitMsMax);
      if (waited === "timed-out") return "timed-out";
    }
  }
}
