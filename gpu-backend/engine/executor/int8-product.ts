import type { Matrix } from "../model/matrix.ts";
import { integerProductGraph } from "./integer-product-graph.ts";
import { instantiateKernel } from "./kernel.ts";
import { type QuantizedMatrix, type Quantizer, quantizeStretches } from "./quantize.ts";
import { Region } from "./region.ts";
import type { RowPlaces } from "./row-operations.ts";
import type { Segment, SegmentRuntime } from "./segment-runtime.ts";

/** The exports of `gpu-backend/kernels/int8-product.ts`; addresses are bytes in its memory. */
interface ProductKernel {
  quantizeRows(
    rows: number,
    rowCount: number,
    columns: number,
    quantized: number,
    scales: number,
  ): void;
  multiply(
    quantized: number,
    rowScales: number,
    rowCount: number,
    pairs: number,
    weights: number,
    outputScales: number,
    outputs: number,
    results: number,
    scratch: number,
  ): void;
  quantizeToBytes(
    rows: number,
    rowCount: number,
    columns: number,
    bytes: number,
    scales: number,
  ): void;
  scaleSums(
    sums: number,
    rowScales: number,
    rowCount: number,
    outputScales: number,
    outputs: number,
    results: number,
  ): void;
}

/** A matrix in the kernel's memory; `weights` and `scales` are addresses. */
export interface Int8Matrix {
  readonly inputs: number;
  readonly outputs: number;
  readonly weights: number;
  readonly scales: number;
  /** What both take, and the runtime's own copy. */
  readonly byteLength: number;
  /** The same product by the runtime, where that pays for many rows; see `integerProductGraph`. */
  readonly segment?: Segment;
}

const FLOAT_BYTES = 4;
const SHORT_BYTES = 2;
/** See `gpu-backend/kernels/int8-product.ts` for the layout of weights. */
const TILE_OUTPUTS = 8;
const SPARE_FLOATS = 32;

/** Multiplications from which on a call of the runtime costs less than our own kernel; measured. */
const SEGMENT_WORK_MIN = 500_000;

/**
 * Products of f32 rows with int8 matrices, by our own kernel in a runtime's memory, or by the runtime
 * where that is faster. Sums of integers are exact, so nobody can tell by the bits which it was.
 */
export class Int8Product {
  readonly #runtime: SegmentRuntime;
  readonly #kernel: ProductKernel;
  readonly #quantized: Region;
  readonly #rowScales: Region;
  readonly #spare: Region;

  readonly #segmentWorkMin: number;

  /** Matrices and rows must lie in the memory of this runtime. */
  constructor(runtime: SegmentRuntime, { segmentWorkMin } = { segmentWorkMin: SEGMENT_WORK_MIN }) {
    this.#runtime = runtime;
    this.#segmentWorkMin = segmentWorkMin;
    this.#kernel = instantiateKernel<ProductKernel>("int8-product", runtime.memory, [
      "quantizeRows",
      "multiply",
      "quantizeToBytes",
      "scaleSums",
    ]);
    this.#quantized = new Region(runtime, 0);
    this.#rowScales = new Region(runtime, 0);
    this.#spare = new Region(runtime, SPARE_FLOATS * FLOAT_BYTES);
  }

  /**
   * Quantizes a matrix into the runtime's memory, where it stays for as long as that exists. No copy of it
   * is made on the way, except where the runtime wants one of its own.
   */
  async load(matrix: Matrix, quantize: Quantizer = quantizeStretches): Promise<Int8Matrix> {
    const { inputs, outputs } = matrix;
    const paddedOutputs = paddedOutputsOf(matrix);
    const weightBytes = paddedOutputs * pairsOf(matrix) * 2;
    const weights = this.#runtime.allocate(weightBytes);
    const scales = this.#runtime.allocate(paddedOutputs * FLOAT_BYTES);
    const { multipliesIntegers } = this.#runtime;
    const whole = multipliesIntegers ? new Int8Array(outputs * inputs) : undefined;
    for (const stretch of quantize(matrix, TILE_OUTPUTS)) {
      const { buffer } = this.#runtime.memory;
      const packed = packWeights(stretch);
      const { first } = stretch;
      new Int8Array(buffer, weights + first * pairsOf(matrix) * 2, packed.length).set(packed);
      new Float32Array(buffer, scales, outputs).set(stretch.scales, first);
      whole?.set(stretch.values, first * inputs);
    }
    const byteLength = weightBytes + paddedOutputs * FLOAT_BYTES;
    const loaded = { inputs, outputs, weights, scales, byteLength };
    if (whole === undefined) return loaded;
    const segment = await this.#runtime.load(
      integerProductGraph({ inputs, outputs, values: whole }),
    );
    return { ...loaded, byteLength: byteLength + whole.byteLength, segment };
  }

  /**
   * Multiplies `rowCount` rows at address `input` with the matrix, to rows at `output`. Each row is
   * quantized by its own largest value, so no row depends on another.
   */
  multiply(
    matrix: Int8Matrix,
    rowCount: number,
    input: number,
    output: number,
  ): Promise<void> | void {
    const { segment } = matrix;
    const work = rowCount * matrix.inputs * matrix.outputs;
    if (segment !== undefined && work >= this.#segmentWorkMin) {
      return this.#multiplyByRuntime(matrix, segment, { rowCount, input, output });
    }
    const pairs = pairsOf(matrix);
    this.#quantized.ensure(rowCount * pairs * 2 * SHORT_BYTES);
    this.#rowScales.ensure(rowCount * FLOAT_BYTES);
    const quantized = this.#quantized.address;
    const rowScales = this.#rowScales.address;
    this.#kernel.quantizeRows(input, rowCount, matrix.inputs, quantized, rowScales);
    this.#kernel.multiply(
      quantized,
      rowScales,
      rowCount,
      pairs,
      matrix.weights,
      matrix.scales,
      matrix.outputs,
      output,
      this.#spare.address,
    );
  }

  #multiplyByRuntime(
    matrix: Int8Matrix,
    segment: Segment,
    { rowCount, input, output }: RowPlaces,
  ): Promise<void> | void {
    const { inputs, outputs } = matrix;
    this.#quantized.ensure(rowCount * inputs);
    this.#rowScales.ensure(rowCount * FLOAT_BYTES);
    const rows = this.#quantized.address;
    const rowScales = this.#rowScales.address;
    this.#kernel.quantizeToBytes(input, rowCount, inputs, rows, rowScales);
    // Sums are as long as floats, so they lie where the results will: each is read before it is lost.
    const running = segment.run(
      [{ type: "uint8", address: rows, shape: [rowCount, inputs] }],
      [{ type: "int32", address: output, shape: [rowCount, outputs] }],
    );
    const scale = () =>
      this.#kernel.scaleSums(output, rowScales, rowCount, matrix.scales, outputs, output);
    return running === undefined ? scale() : running.then(scale);
  }
}

/** Orders weights by tiles of outputs and pairs of inputs, padded with zeros to tiles and to two pairs. */
function packWeights(matrix: QuantizedMatrix): Int8Array {
  const { inputs, outputs, values } = matrix;
  const pairs = pairsOf(matrix);
  const packed = new Int8Array(paddedOutputsOf(matrix) * pairs * 2);
  for (let output = 0; output < outputs; output++) {
    const tile = Math.floor(output / TILE_OUTPUTS) * pairs * 2 * TILE_OUTPUTS;
    const place = tile + (output % TILE_OUTPUTS) * 2;
    for (let input = 0; input < inputs; input++) {
      const pair = Math.floor(input / 2) * 2 * TILE_OUTPUTS;
      packed[place + pair + (input % 2)] = values[output * inputs + input] ?? 0;
    }
  }
  return packed;
}

function pairsOf({ inputs }: { readonly inputs: number }): number {
  return 2 * Math.ceil(inputs / 4);
}

function paddedOutputsOf({ outputs }: { readonly outputs: number }): number {
  return Math.ceil(outputs / TILE_OUTPUTS) * TILE_OUTPUTS;
}
