import { OnnxGraph } from "./onnx-writer.ts";
import type { QuantizedMatrix } from "./quantize.ts";
import type { SegmentGraph } from "./segment-runtime.ts";

/** What stands for 0 among the bytes of a row: ONNX Runtime is slow with signed ones. */
const ZERO_POINT = 128;

/** Multiplies rows of bytes, each 128 more than it means, with an int8 matrix, to sums in i32. */
export function integerProductGraph(
  matrix: Pick<QuantizedMatrix, "inputs" | "outputs" | "values">,
): SegmentGraph {
  const { inputs, outputs, values } = matrix;
  const transposed = new Int8Array(values.length);
  for (let output = 0; output < outputs; output++) {
    for (let input = 0; input < inputs; input++) {
      transposed[input * outputs + output] = values[output * inputs + input] ?? 0;
    }
  }
  const graph = new OnnxGraph();
  graph.input("rows", "uint8", ["N", inputs]);
  const weights = graph.constant("int8", [inputs, outputs], transposed);
  const zeroPoint = graph.constant("uint8", [], Uint8Array.of(ZERO_POINT));
  graph.apply("MatMulInteger", ["rows", weights, zeroPoint], { outputs: ["sums"] });
  graph.output("sums", "int32", ["N", outputs]);
  return { model: graph.toModel(), inputs: ["rows"], outputs: ["sums"] };
}
