import { assert } from "../../../src/base/assert.ts";
import type { LayerWeights, LoadedModel, Matrix } from "../model/load-model.ts";
import { applyInt8Multiply } from "./int8-multiply.ts";
import { OnnxGraph } from "./onnx-writer.ts";
import { quantizeMatrix, stackMatrices, transposeMatrix } from "./quantize.ts";

/** What the large matrices are stored as; norms and the embedding's rows are f32 in either. */
export type WeightFormat =
  | { readonly kind: "f32" }
  /** int8 weights stay within ± `weightMax`. */
  | { readonly kind: "int8"; readonly weightMax: number };

/** One ONNX model that computes what lies between two attentions, with its interface in order. */
export interface SegmentGraph {
  readonly model: Uint8Array;
  readonly inputs: readonly string[];
  readonly outputs: readonly string[];
}

/** How many segments a model is cut into. */
export function segmentCountOf(model: LoadedModel): number {
  return model.layers.length + 2;
}

/**
 * Builds segment `index` of a model with L layers, 0 to L + 1. All tensors are packed rows:
 *
 *     segment 0   tokens [N] i32                     → hidden [N, hidden], qkv [N, queries + 2 kv]
 *     1 … L - 1   hidden [N, hidden], attended [N, queries]  → hidden, qkv
 *     segment L   hidden [R, hidden], attended [R, queries]  → normalized [R, hidden]
 *     segment L + 1   normalized [R, hidden]                 → logits [R, vocabulary]
 *
 * The head stands apart, since a pooled prompt wants its last hidden states and no logits.
 * Between two of the others the kernel rotates queries and keys, stores keys and values, and attends.
 * Every operator works row by row, so a row does not depend on what else is in the step.
 */
export function buildSegment(
  model: LoadedModel,
  index: number,
  format: WeightFormat,
): SegmentGraph {
  const segment = new SegmentBuilder(model, format);
  const before = model.layers[index - 1];
  const after = model.layers[index];
  if (before === undefined) {
    if (index === segmentCountOf(model) - 1) return segment.head();
    assert(index === 0 && after !== undefined, `the model has no segment ${index}`);
    return segment.first(after);
  }
  return after === undefined ? segment.last(before) : segment.middle(before, after);
}

class SegmentBuilder {
  readonly #graph = new OnnxGraph();
  readonly #model: LoadedModel;
  readonly #format: WeightFormat;

  constructor(model: LoadedModel, format: WeightFormat) {
    this.#model = model;
    this.#format = format;
  }

  first(after: LayerWeights): SegmentGraph {
    const graph = this.#graph;
    const { outputs, inputs, values } = this.#model.embedding;
    graph.input("tokens", "int32", ["N"]);
    const table = graph.constant("float32", [outputs, inputs], values);
    const hidden = graph.apply("Gather", [table, "tokens"], { outputs: ["next_hidden"] });
    const normalized = graph.apply(
      "SimplifiedLayerNormalization",
      [hidden, this.#vector(after.attentionNorm)],
      {
        attributes: {
          axis: { kind: "integer", value: -1 },
          epsilon: { kind: "float", value: this.#model.config.normEpsilon },
        },
      },
    );
    return this.#finishWithQkv(["tokens"], normalized, after);
  }

  middle(before: LayerWeights, after: LayerWeights): SegmentGraph {
    const { mlp, residual } = this.#outputProjectionAndMlp(before);
    const normalized = this.#addAndNormalize(mlp, residual, after.attentionNorm, "next_hidden");
    return this.#finishWithQkv(["hidden", "attended"], normalized, after);
  }

  last(before: LayerWeights): SegmentGraph {
    const { mlp, residual } = this.#outputProjectionAndMlp(before);
    const normalized = this.#addAndNormalize(mlp, residual, this.#model.finalNorm);
    this.#graph.output(normalized, "float32", ["N", this.#model.config.hiddenSize]);
    return this.#finish(["hidden", "attended"], [normalized]);
  }

  head(): SegmentGraph {
    const { head, config } = this.#model;
    this.#graph.input("normalized", "float32", ["N", config.hiddenSize]);
    this.#multiply("normalized", head, "logits");
    this.#graph.output("logits", "float32", ["N", head.outputs]);
    return this.#finish(["normalized"], ["logits"]);
  }

  #finishWithQkv(inputs: readonly string[], normalized: string, layer: LayerWeights): SegmentGraph {
    const qkv = stackMatrices([layer.query, layer.key, layer.value]);
    this.#multiply(normalized, qkv, "qkv");
    this.#graph.output("next_hidden", "float32", ["N", this.#model.config.hiddenSize]);
    this.#graph.output("qkv", "float32", ["N", qkv.outputs]);
    return this.#finish(inputs, ["next_hidden", "qkv"]);
  }

  #finish(inputs: readonly string[], outputs: readonly string[]): SegmentGraph {
    return { model: this.#graph.toModel(), inputs, outputs };
  }

  /** From the attention's output to the MLP's, which is still to be added to `residual`. */
  #outputProjectionAndMlp(layer: LayerWeights): { mlp: string; residual: string } {
    const graph = this.#graph;
    const { hiddenSize, mlpSize } = this.#model.config;
    graph.input("hidden", "float32", ["N", hiddenSize]);
    graph.input("attended", "float32", ["N", layer.attentionOutput.inputs]);
    const projected = this.#multiply("attended", layer.attentionOutput);
    const normalized = this.#addAndNormalize(projected, "hidden", layer.mlpNorm, "residual");
    const gateAndUp = this.#multiply(normalized, stackMatrices([layer.gate, layer.up]));
    const sizes = graph.constant("int64", [2], BigInt64Array.of(BigInt(mlpSize), BigInt(mlpSize)));
    const gate = graph.apply("Split", [gateAndUp, sizes], {
      attributes: { axis: { kind: "integer", value: -1 } },
      outputs: ["gate", "up"],
    });
    // SiLU(gate) * up; ONNX Runtime fuses the first two operators.
    const activated = graph.apply("Mul", [gate, graph.apply("Sigmoid", [gate])]);
    const product = graph.apply("Mul", [activated, "up"]);
    return { mlp: this.#multiply(product, layer.down), residual: "residual" };
  }

  /** RMS norm of the sum of two values; the sum itself is kept under the name `sum`, if given. */
  #addAndNormalize(value: string, residual: string, weights: Float32Array, sum?: string): string {
    const normalized = sum === undefined ? "normalized" : `normalized_${sum}`;
    return this.#graph.apply(
      "SkipSimplifiedLayerNormalization",
      [value, residual, this.#vector(weights)],
      {
        domain: "com.microsoft",
        attributes: { epsilon: { kind: "float", value: this.#model.config.normEpsilon } },
        outputs: sum === undefined ? [normalized] : [normalized, "", "", sum],
      },
    );
  }

  #vector(values: Float32Array): string {
    return this.#graph.constant("float32", [values.length], values);
  }

  #multiply(input: string, matrix: Matrix, output?: string): string {
    if (this.#format.kind === "int8") {
      const quantized = quantizeMatrix(matrix, this.#format.weightMax);
      return applyInt8Multiply(this.#graph, input, quantized, output);
    }
    const shape = [matrix.inputs, matrix.outputs];
    const weights = this.#graph.constant("float32", shape, transposeMatrix(matrix));
    const outputs = output === undefined ? {} : { outputs: [output] };
    return this.#graph.apply("MatMul", [input, weights], outputs);
  }
}
