import type { LayerWeights, Matrix } from "../model/load-model.ts";
import type { ModelConfig } from "../model/model-config.ts";
import { stackMatrices, transposeMatrix } from "./matrices.ts";
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
    if (name === "tokens") graph.input(name, "int32", ["N"]);
    else graph.input(name, "float32", ["N", columns[name]]);
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

/** Adds the product of rows with an f32 matrix, under the name `output`. */
export function applyProduct(
  graph: OnnxGraph,
  input: string,
  matrix: Matrix,
  output: string,
): void {
  const shape = [matrix.inputs, matrix.outputs];
  const weights = graph.constant("float32", shape, transposeMatrix(matrix));
  graph.apply("MatMul", [input, weights], { outputs: [output] });
}

/** Adds the look-up of each token's row of the embedding, under the name `output`. */
export function applyEmbedding(
  graph: OnnxGraph,
  tokens: string,
  embedding: Matrix,
  output: string,
): void {
  const shape = [embedding.outputs, embedding.inputs];
  const table = graph.constant("float32", shape, embedding.values);
  graph.apply("Gather", [table, tokens], { outputs: [output] });
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

/** Adds SiLU(gate) × up under the name `output`; a row holds a gate and, behind it, its up. */
export function applyGate(
  graph: OnnxGraph,
  gateAndUp: string,
  mlpSize: number,
  output: string,
): void {
  const sizes = graph.constant("int64", [2], BigInt64Array.of(BigInt(mlpSize), BigInt(mlpSize)));
  graph.apply("Split", [gateAndUp, sizes], {
    attributes: { axis: { kind: "integer", value: -1 } },
    outputs: ["gate", "up"],
  });
  // ONNX Runtime fuses these two into one operator.
  const activated = graph.apply("Mul", ["gate", graph.apply("Sigmoid", ["gate"])]);
  graph.apply("Mul", [activated, "up"], { outputs: [output] });
}

function normWeights(graph: OnnxGraph, { weights }: Norm): string {
  return graph.constant("float32", [weights.length], weights);
}
