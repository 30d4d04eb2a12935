import { instantiateKernel } from "./kernel.ts";
import type { SegmentRuntime } from "./segment-runtime.ts";

/** The exports of `gpu-backend/kernels/row-operations.ts`; addresses are bytes in its memory. */
interface RowKernel {
  add(sums: number, values: number, rowCount: number, columns: number): void;
  normalize(
    rows: number,
    rowCount: number,
    columns: number,
    weights: number,
    epsilon: number,
    results: number,
  ): void;
  gate(gatesAndUps: number, rowCount: number, columns: number, results: number): void;
}

/** Floats in the kernel's memory. */
export interface LoadedFloats {
  readonly address: number;
  readonly byteLength: number;
}

/** What lies between the products of a transformer, by our own kernel in a runtime's memory. */
export class RowOperations {
  readonly #runtime: SegmentRuntime;
  readonly #kernel: RowKernel;

  constructor(runtime: SegmentRuntime) {
    this.#runtime = runtime;
    this.#kernel = instantiateKernel<RowKernel>("row-operations", runtime.memory, [
      "add",
      "normalize",
      "gate",
    ]);
  }

  /** Copies floats into the runtime's memory, for as long as that exists. */
  load(values: Float32Array): LoadedFloats {
    const { byteLength } = values;
    const address = this.#runtime.allocate(byteLength);
    new Float32Array(this.#runtime.memory.buffer, address, values.length).set(values);
    return { address, byteLength };
  }

  /** Adds rows to those at `output`. */
  add(rows: RowPlaces, columns: number): void {
    this.#kernel.add(rows.output, rows.input, rows.rowCount, columns);
  }

  /** RMS norm of each row; there are as many weights as columns. */
  normalize(weights: LoadedFloats, epsilon: number, rows: RowPlaces): void {
    const columns = weights.byteLength / Float32Array.BYTES_PER_ELEMENT;
    const { input, rowCount, output } = rows;
    this.#kernel.normalize(input, rowCount, columns, weights.address, epsilon, output);
  }

  /** SiLU(gate) × up; an input row holds `columns` gates and, behind them, their ups. */
  gate(rows: RowPlaces, columns: number): void {
    this.#kernel.gate(rows.input, rows.rowCount, columns, rows.output);
  }
}

/** Addresses of packed rows: what is read, and what is written. */
export interface RowPlaces {
  readonly input: number;
  readonly output: number;
  readonly rowCount: number;
}
