import type { LayerWeights } from "../model/load-model.ts";
import { type Matrix, stackMatrices } from "../model/matrix.ts";
import type { ModelConfig } from "../model/model-config.ts";
import { transposeMatrix } from "./matrices.ts";
import { OnnxGraph } from "./onnx-writer.ts";
import { bufferColumns, type BufferName, type Norm, type StagePlan } from "./stage.ts";

/**
 * A stage that runs a graph between these buffers. `build` adds the operators; it finds the inputs
 * under the names of their buffers, and must yield the outputs under theirs.
 */
export function graphStage(
  config: ModelConfig,
  inputs: readonly BufferName[],
  outputs: readonly BufferName[],
  build: (graph: OnnxGraph) => void,
): StagePlan {
  const graph = new OnnxGraph();
  const columns = bufferColumns(config);
  for (const name of inputs) {
    graph.input(name, "float32", ["N", columns[name]]);
  }
  build(graph);
  for (const name of outputs) graph.output(name, "float32", ["N", columns[name]]);
  return { kind: "graph", graph: { model: graph.toModel(), inputs, outputs } };
}

/** Queries, keys and values of a layer as one matrix, in this order. */
export function qkvMatrix({ query, key, value }: LayerWeights): Matrix {
  return stackMatrices([query, key, value]);
}

/** Gate and up of a layer's MLP as one matrix, in this order. */
export function gateAndUpMatrix({ gate, up }: LayerWeights): Matrix {
  return stackMatrices([gate, up]);
}

/** Adds the product of rows with an f32 matrix, plus a bias if there is one, under the name `output`. */
export function applyProduct(
  graph: OnnxGraph,
  input: string,
  { matrix, bias }: { readonly matrix: Matrix; readonly bias?: Float32Array | undefined },
  output: string,
): void {
  const shape = [matrix.inputs, matrix.outputs];
  const weights = graph.constant("float32", shape, transposeMatrix(matrix));
  if (bias === undefined) {
    graph.apply("MatMul", [input, weights], { outputs: [output] });
    return;
  }
  const product = graph.apply("MatMul", [input, weights]);
  const addend = graph.constant("float32", [bias.length], bias);
  graph.apply("Add", [product, addend], { outputs: [output] });
}

/** Adds an RMS norm of each row, under the name `output`. */
export function applyNorm(graph: OnnxGraph, input: string, norm: Norm, output: string): void {
  graph.apply("SimplifiedLayerNormalization", [input, normWeights(graph, norm)], {
    attributes: {
      axis: { kind: "integer", value: -1 },
      epsilon: { kind: "float", value: norm.epsilon },
    },
    outputs: [output],
  });
}

/** Adds the sum of two values, if it is given a name, and the RMS norm of the sum. */
export function applySumAndNorm(
  graph: OnnxGraph,
  values: readonly [string, string],
  norm: Norm,
  outputs: { readonly sum?: string; readonly normalized: string },
): void {
  const { sum, normalized } = outputs;
  graph.apply("SkipSimplifiedLayerNormalization", [...values, normWeights(graph, norm)], {
    domain: "com.microsoft",
    attributes: { epsilon: { kind: "float", value: norm.epsilon } },
    outputs: sum === undefined ? [normalized] : [normalized, "", "", sum],
  });
}

/** Adds the activated gate times up under the name `output`; a row holds a gate and, behind it, its up. */
export function applyGate(
  graph: OnnxGraph,
  gateAndUp: string,
  { mlpSize, activation }: Pick<ModelConfig, "mlpSize" | "activation">,
  output: string,
): void {
  const sizes = graph.constant("int64", [2], BigInt64Array.of(BigInt(mlpSize), BigInt(mlpSize)));
  graph.apply("Split", [gateAndUp, sizes], {
    attributes: { axis: { kind: "integer", value: -1 } },
    outputs: ["gate", "up"],
  });
  const slope = activation === "silu" ? "gate" : applyGeluSlope(graph, "gate");
  // ONNX Runtime fuses these two into one operator.
  const activated = graph.apply("Mul", ["gate", graph.apply("Sigmoid", [slope])]);
  graph.apply("Mul", [activated, "up"], { outputs: [output] });
}

/** GELU by tanh is x × sigmoid of this: half of 1 + tanh(u) is the sigmoid of 2u. */
function applyGeluSlope(graph: OnnxGraph, input: string): string {
  const scalar = (value: number) => graph.constant("float32", [1], Float32Array.of(value));
  const square = graph.apply("Mul", [input, input]);
  const cubic = graph.apply("Mul", [square, scalar(GELU_CUBIC)]);
  const factor = graph.apply("Add", [cubic, scalar(1)]);
  const inner = graph.apply("Mul", [input, factor]);
  return graph.apply("Mul", [inner, scalar(2 * Math.sqrt(2 / Math.PI))]);
}

/** Of the approximation of GELU that Hendrycks and Gimpel give. */
const GELU_CUBIC = 0.044715;

function normWeights(graph: OnnxGraph, { weights }: Norm): string {
  return graph.constant("float32", [weights.length], weights);
}
