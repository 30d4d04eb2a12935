import type { Matrix } from "../model/matrix.ts";
import type { ModelConfig } from "../model/model-config.ts";
import type { SegmentGraph } from "./segment-runtime.ts";

/** The weights of an RMS norm. */
export interface Norm {
  readonly weights: Float32Array;
  readonly epsilon: number;
}

/**
 * What stages read and write: tensors with a row for each token of the step. There are two hidden
 * states for graphs, which must not write what they read.
 */
export type BufferName =
  | "hidden"
  | "hidden2"
  | "normalized"
  | "qkv"
  | "attended"
  | "projected"
  | "gateAndUp"
  | "activated"
  | "logits";

/** One thing after the other that a step does; a model is a list of these. */
export type StagePlan =
  /** Runs a graph of ONNX Runtime's. */
  | { readonly kind: "graph"; readonly graph: SegmentGraph<BufferName> }
  /** Multiplies in int8, by our own kernel. */
  | {
      readonly kind: "product";
      readonly matrix: Matrix;
      readonly input: BufferName;
      readonly output: BufferName;
    }
  /** Looks each token's row up, times `scale`: to `hidden`. */
  | { readonly kind: "embed"; readonly table: Matrix; readonly scale: number }
  /** Adds rows to `hidden`. */
  | { readonly kind: "add"; readonly input: BufferName }
  /** From `hidden` to `normalized`. */
  | { readonly kind: "norm"; readonly norm: Norm }
  /** SiLU(gate) × up: from `gateAndUp` to `activated`. */
  | { readonly kind: "gate" }
  /** The same with GELU by tanh. */
  | { readonly kind: "gelu-gate" }
  /** Adds a vector to each row, in place. */
  | { readonly kind: "bias"; readonly buffer: BufferName; readonly values: Float32Array }
  /** RMS norms of each head's query and key, in place in `qkv`; a vector has the dimensions of a head. */
  | {
      readonly kind: "head-norms";
      readonly query: Float32Array;
      readonly key: Float32Array;
      readonly epsilon: number;
    }
  /** Rotates and stores a layer's keys and values and attends to them: from `qkv` to `attended`. */
  | { readonly kind: "attention"; readonly layer: number }
  /**
   * Keeps only the rows that something is asked of, packed; the last attention has done so with
   * `attended`. A step without such rows ends here.
   */
  | { readonly kind: "pick"; readonly buffer: BufferName }
  /**
   * Stands before the head: takes out of `normalized` the hidden states that are asked for, and keeps
   * only the rows with logits. A step without such rows ends here.
   */
  | { readonly kind: "split" };

/** Columns of each buffer; all are f32. */
export function bufferColumns(config: ModelConfig): Readonly<Record<BufferName, number>> {
  const { hiddenSize, mlpSize, headCount, kvHeadCount, headDimensions } = config;
  return {
    hidden: hiddenSize,
    hidden2: hiddenSize,
    normalized: hiddenSize,
    qkv: (headCount + 2 * kvHeadCount) * headDimensions,
    attended: headCount * headDimensions,
    projected: hiddenSize,
    gateAndUp: 2 * mlpSize,
    activated: mlpSize,
    logits: config.vocabularyTokens,
  };
}
