import type { SegmentRuntime, TensorPlace } from "./segment-runtime.ts";

/** A stretch of the runtime's memory; it grows by at least half, so growth is rare and bounded. */
export class Region {
  readonly #runtime: SegmentRuntime;
  #address: number;
  #byteLength: number;

  constructor(runtime: SegmentRuntime, byteLength: number) {
    this.#runtime = runtime;
    this.#address = runtime.allocate(byteLength);
    this.#byteLength = byteLength;
  }

  get address(): number {
    return this.#address;
  }

  ensure(byteLength: number): void {
    if (byteLength <= this.#byteLength) return;
    this.#byteLength = Math.max(byteLength, Math.ceil(this.#byteLength * 1.5));
    this.#address = this.#runtime.allocate(this.#byteLength);
  }

  setInts(values: Int32Array): void {
    this.ensure(values.byteLength);
    new Int32Array(this.#runtime.memory.buffer, this.#address, values.length).set(values);
  }

  floats(count: number): Float32Array {
    return new Float32Array(this.#runtime.memory.buffer, this.#address, count);
  }

  copyFloats(source: Region, range: { from: number; to: number; count: number }): void {
    const values = source.floats(range.from + range.count).subarray(range.from);
    this.floats(range.to + range.count).set(values, range.to);
  }

  place(type: TensorPlace["type"], shape: readonly number[]): TensorPlace {
    return { type, address: this.#address, shape };
  }
}
