import { assert } from "../../../src/base/assert.ts";
import type { LayerWeights, LoadedModel, Matrix } from "../model/load-model.ts";
import { ELEMENT_TYPES, OnnxGraph } from "./onnx-writer.ts";
import { quantizeMatrix, stackMatrices, transposeMatrix } from "./quantize.ts";

/** How the large matrices are stored and multiplied; fixed when the model is loaded. */
export type Precision = "f32" | "int8";

/** What `buildSegment` must know beside the model. */
export interface SegmentOptions {
  readonly precision: Precision;
  /** int8 weights stay within ± this. */
  readonly weightMax: number;
}

/** One ONNX model that computes what lies between two attentions, with its interface in order. */
export interface SegmentGraph {
  readonly model: Uint8Array;
  readonly inputs: readonly string[];
  readonly outputs: readonly string[];
}

/** Quantized activations lie within ± this around the zero point. */
const ACTIVATION_MAX = 127;
const ACTIVATION_ZERO = 128;
/** What a row's largest activation is taken for at least. */
const LARGEST_MIN = 1e-8;

/**
 * Builds segment `index` of a model with L layers, 0 to L. All tensors are packed rows:
 *
 *     segment 0   tokens [N] i32                     → hidden [N, hidden], qkv [N, queries + 2 kv]
 *     1 … L - 1   hidden [N, hidden], attended [N, queries]  → hidden, qkv
 *     segment L   hidden [R, hidden], attended [R, queries]  → logits [R, vocabulary]
 *
 * Between two segments the kernel rotates queries and keys, stores keys and values, and attends.
 * Every operator works row by row, so a row does not depend on what else is in the step.
 */
export function buildSegment(
  model: LoadedModel,
  index: number,
  options: SegmentOptions,
): SegmentGraph {
  const segment = new SegmentBuilder(model, options);
  const before = model.layers[index - 1];
  const after = model.layers[index];
  if (before === undefined) {
    assert(index === 0 && after !== undefined, `the model has no segment ${index}`);
    return segment.first(after);
  }
  return after === undefined ? segment.last(before) : segment.middle(before, after);
}

class SegmentBuilder {
  readonly #graph = new OnnxGraph();
  readonly #model: LoadedModel;
  readonly #options: SegmentOptions;

  constructor(model: LoadedModel, options: SegmentOptions) {
    this.#model = model;
    this.#options = options;
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
    const { finalNorm, head } = this.#model;
    const { mlp, residual } = this.#outputProjectionAndMlp(before);
    const normalized = this.#addAndNormalize(mlp, residual, finalNorm);
    this.#multiply(normalized, head, "logits");
    this.#graph.output("logits", "float32", ["N", head.outputs]);
    return this.#finish(["hidden", "attended"], ["logits"]);
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

  #scalar(value: number): string {
    return this.#graph.constant("float32", [], Float32Array.of(value));
  }

  #multiply(input: string, matrix: Matrix, output?: string): string {
    const outputs = output === undefined ? {} : { outputs: [output] };
    if (this.#options.precision === "int8") return this.#multiplyInt8(input, matrix, outputs);
    const shape = [matrix.inputs, matrix.outputs];
    const weights = this.#graph.constant("float32", shape, transposeMatrix(matrix));
    return this.#graph.apply("MatMul", [input, weights], outputs);
  }

  /**
   * Multiplies in int8, with a scale per row of the input and one per output of the matrix.
   *
   * A scale for the whole input, as DynamicQuantizeMatMul has it, would make each row depend on the
   * largest value of its batch mates. Activations are unsigned around 128, since ONNX Runtime's
   * signed path is many times slower.
   */
  #multiplyInt8(
    input: string,
    matrix: Matrix,
    outputs: { readonly outputs?: readonly string[] },
  ): string {
    const graph = this.#graph;
    const { values, scales } = quantizeMatrix(matrix, this.#options.weightMax);
    const lastAxis = graph.constant("int64", [1], BigInt64Array.of(-1n));
    const largest = graph.apply("ReduceMax", [graph.apply("Abs", [input]), lastAxis], {
      attributes: { keepdims: { kind: "integer", value: 1 } },
    });
    // A row of zeros must not divide by zero.
    const divisible = graph.apply("Max", [largest, this.#scalar(LARGEST_MIN)]);
    const rowScale = graph.apply("Mul", [divisible, this.#scalar(1 / ACTIVATION_MAX)]);
    const shifted = graph.apply("Add", [
      graph.apply("Div", [input, rowScale]),
      // The cast cuts off, so half a step more makes it round.
      this.#scalar(ACTIVATION_ZERO + 0.5),
    ]);
    const quantized = graph.apply("Cast", [shifted], {
      attributes: { to: { kind: "integer", value: ELEMENT_TYPES.uint8 } },
    });
    const product = graph.apply(
      "MatMulIntegerToFloat",
      [
        quantized,
        graph.constant("int8", [matrix.inputs, matrix.outputs], values),
        this.#scalar(1),
        this.#vector(scales),
        graph.constant("uint8", [], Uint8Array.of(ACTIVATION_ZERO)),
      ],
      { domain: "com.microsoft" },
    );
    return graph.apply("Mul", [product, rowScale], outputs);
  }
}
