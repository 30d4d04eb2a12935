import type { SegmentRuntime } from "./segment-runtime.ts";

/**
 * A stretch of the runtime's memory. It moves when it grows, and then by at least half: what it
 * leaves behind is lost until the runtime closes, and is less than twice what it needs in the end.
 */
export class Region {
  readonly #runtime: SegmentRuntime;
  #address: number;
  #byteLength: number;
  /** All of it, as integers; made anew when it moves, or when the memory has grown. */
  #ints: Int32Array = new Int32Array(0);

  constructor(runtime: SegmentRuntime, byteLength: number) {
    this.#runtime = runtime;
    this.#address = runtime.allocate(byteLength);
    this.#byteLength = byteLength;
  }

  get address(): number {
    return this.#address;
  }

  /** Makes room; what the region held is lost if it has to grow. */
  ensure(byteLength: number): void {
    if (byteLength <= this.#byteLength) return;
    this.#byteLength = Math.max(byteLength, Math.ceil(this.#byteLength * 1.5));
    this.#address = this.#runtime.allocate(this.#byteLength);
  }

  /** Writes integers at the start, with room made for them. */
  setInts(values: Int32Array): void {
    this.ensure(values.byteLength);
    const { buffer } = this.#runtime.memory;
    if (this.#ints.buffer !== buffer || this.#ints.byteOffset !== this.#address) {
      this.#ints = new Int32Array(buffer, this.#address, this.#byteLength >> 2);
    }
    this.#ints.set(values);
  }

  /** A view of the first floats. */
  floats(count: number): Float32Array {
    return new Float32Array(this.#runtime.memory.buffer, this.#address, count);
  }
}
