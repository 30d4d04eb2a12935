import { applyInt8Multiply } from "./int8-multiply.ts";
import { OnnxGraph } from "./onnx-writer.ts";
import type { SegmentRuntime } from "./segment-runtime.ts";

const FLOAT_BYTES = 4;

/** Multiplies `[rows, inputs]` with `[inputs, outputs]`, all of them whole numbers. */
export type Int8Multiply = (operands: {
  readonly activations: Float32Array;
  readonly weights: Int8Array;
  readonly rows: number;
  readonly inputs: number;
  readonly outputs: number;
}) => Promise<Float32Array>;

/** The largest int8 weight where the machine multiplies exactly, as nearly all do. */
export const WEIGHT_MAX = 127;
const WEIGHT_LIMITS = [WEIGHT_MAX, 63];
/** An even and an odd number of rows take different kernels, and so does a single row. */
const PROBE_ROWS = [1, 4, 7] as const;
const PROBE_INPUTS = 96;
const PROBE_OUTPUTS = 24;
const EXTREME = 127;

/**
 * The largest limit of int8 weights under which products are exact even at the extremes, or undefined
 * if there is none. On x86 without VNNI instructions ONNX Runtime may add pairs of products in 16
 * bits, which saturate: two of 255 × 127 do, two of 255 × 63 do not.
 */
export async function exactWeightMax(multiply: Int8Multiply): Promise<number | undefined> {
  for (const limit of WEIGHT_LIMITS) {
    if (await isExact(multiply, limit)) return limit;
  }
  return undefined;
}

async function isExact(multiply: Int8Multiply, weightMax: number): Promise<boolean> {
  const shape = { inputs: PROBE_INPUTS, outputs: PROBE_OUTPUTS };
  const weights = new Int8Array(PROBE_INPUTS * PROBE_OUTPUTS).map((_, index) => {
    return extremeAt(Math.floor(index / PROBE_OUTPUTS), index % PROBE_OUTPUTS) * weightMax;
  });
  for (const rows of PROBE_ROWS) {
    const activations = new Float32Array(rows * PROBE_INPUTS).map((_, index) => {
      return extremeAt(index % PROBE_INPUTS, Math.floor(index / PROBE_INPUTS)) * EXTREME;
    });
    const products = await multiply({ activations, weights, rows, ...shape });
    const exact = products.every((product, index) => {
      const row = Math.floor(index / PROBE_OUTPUTS);
      let sum = 0;
      for (let input = 0; input < PROBE_INPUTS; input++) {
        const weight = weights[input * PROBE_OUTPUTS + (index % PROBE_OUTPUTS)] ?? 0;
        sum += (activations[row * PROBE_INPUTS + input] ?? 0) * weight;
      }
      return product === sum;
    });
    if (!exact) return false;
  }
  return true;
}

/** Signs that are all plus, all minus, alternate, or change every `pattern - 1` elements. */
function extremeAt(element: number, pattern: number): 1 | -1 {
  if (pattern === 0) return 1;
  if (pattern === 1) return -1;
  return Math.floor(element / (pattern - 1)) % 2 === 0 ? 1 : -1;
}

/** Multiplies by the very operators that a model's int8 matrices are multiplied with. */
export function int8MultiplyOn(runtime: SegmentRuntime): Int8Multiply {
  return async ({ activations, weights, rows, inputs, outputs }) => {
    const graph = new OnnxGraph();
    graph.input("x", "float32", ["N", inputs]);
    const scales = new Float32Array(outputs).fill(1);
    applyInt8Multiply(graph, "x", { inputs, outputs, values: weights, scales }, "y");
    graph.output("y", "float32", ["N", outputs]);
    const segment = await runtime.load({ model: graph.toModel(), inputs: ["x"], outputs: ["y"] });
    const x = runtime.allocate(activations.byteLength);
    const y = runtime.allocate(rows * outputs * FLOAT_BYTES);
    new Float32Array(runtime.memory.buffer, x, activations.length).set(activations);
    await segment.run(
      [{ type: "float32", address: x, shape: [rows, inputs] }],
      [{ type: "float32", address: y, shape: [rows, outputs] }],
    );
    return new Float32Array(runtime.memory.buffer, y, rows * outputs).slice();
  };
}
