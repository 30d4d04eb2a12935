import { ELEMENT_TYPES, type OnnxGraph } from "./onnx-writer.ts";
import type { QuantizedMatrix } from "./quantize.ts";

/** Quantized activations lie within ± this around the zero point. */
const ACTIVATION_MAX = 127;
const ACTIVATION_ZERO = 128;
/** What a row's largest activation is taken for at least: a row of zeros must not divide by zero. */
const LARGEST_MIN = 1e-8;

/**
 * Adds operators that multiply f32 rows with an int8 matrix, with a scale per row and one per output,
 * and returns the name of the product, which is `output` if given.
 *
 * A single scale for all rows, as DynamicQuantizeMatMul has it, would make each row depend on the
 * largest value among its batch mates. Activations are unsigned around 128, since ONNX Runtime is
 * many times slower with signed ones. The sums are integers and exact.
 */
export function applyInt8Multiply(
  graph: OnnxGraph,
  input: string,
  matrix: QuantizedMatrix,
  output?: string,
): string {
  const scalar = (value: number) => graph.constant("float32", [], Float32Array.of(value));
  const lastAxis = graph.constant("int64", [1], BigInt64Array.of(-1n));
  const largest = graph.apply("ReduceMax", [graph.apply("Abs", [input]), lastAxis], {
    attributes: { keepdims: { kind: "integer", value: 1 } },
  });
  const divisible = graph.apply("Max", [largest, scalar(LARGEST_MIN)]);
  const rowScale = graph.apply("Mul", [divisible, scalar(1 / ACTIVATION_MAX)]);
  // The cast cuts off, so half a step more makes it round.
  const shift = scalar(ACTIVATION_ZERO + 0.5);
  const shifted = graph.apply("Add", [graph.apply("Div", [input, rowScale]), shift]);
  const quantized = graph.apply("Cast", [shifted], {
    attributes: { to: { kind: "integer", value: ELEMENT_TYPES.uint8 } },
  });
  const product = graph.apply(
    "MatMulIntegerToFloat",
    [
      quantized,
      graph.constant("int8", [matrix.inputs, matrix.outputs], matrix.values),
      scalar(1),
      graph.constant("float32", [matrix.outputs], matrix.scales),
      graph.constant("uint8", [], Uint8Array.of(ACTIVATION_ZERO)),
    ],
    { domain: "com.microsoft" },
  );
  return graph.apply("Mul", [product, rowScale], output === undefined ? {} : { outputs: [output] });
}
