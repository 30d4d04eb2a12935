import type { ModelConfig } from "./model-config.ts";

/** A tensor that a checkpoint must hold; `[outputs, inputs]`, or the length of a vector. */
export interface ExpectedTensor {
  readonly name: string;
  readonly shape: readonly number[];
}

/** Rows of a tensor that are one matrix of ours; whole tensors mostly. */
export interface MatrixRows extends ExpectedTensor {
  readonly first: number;
  readonly count: number;
}

/** What the tensors of one layer are called. */
export interface LayerTensors {
  readonly attentionNorm: ExpectedTensor;
  readonly query: MatrixRows;
  readonly key: MatrixRows;
  readonly value: MatrixRows;
  readonly attentionOutput: MatrixRows;
  readonly mlpNorm: ExpectedTensor;
  readonly gate: MatrixRows;
  readonly up: MatrixRows;
  readonly down: MatrixRows;
  /** In the order of the matrices' outputs; empty where there are none. */
  readonly qkvBias: readonly ExpectedTensor[];
  readonly attentionOutputBias: readonly ExpectedTensor[];
  readonly gateAndUpBias: readonly ExpectedTensor[];
  readonly downBias: readonly ExpectedTensor[];
  readonly headNorms: { readonly query: ExpectedTensor; readonly key: ExpectedTensor } | undefined;
}

export interface TensorManifest {
  readonly embedding: MatrixRows;
  readonly layers: readonly LayerTensors[];
  readonly finalNorm: ExpectedTensor;
  /** Absent where the embedding is the output matrix. */
  readonly head: MatrixRows | undefined;
}

/** Names and shapes of all tensors that a configuration implies, as transformers names them. */
export function tensorManifest(config: ModelConfig): TensorManifest {
  const { vocabularyTokens, hiddenSize } = config;
  const head = matrix("lm_head.weight", vocabularyTokens, hiddenSize);
  return {
    embedding: matrix("model.embed_tokens.weight", vocabularyTokens, hiddenSize),
    layers: Array.from({ length: config.layerCount }, (_, index) =>
      layerTensors(config, `model.layers.${index}`),
    ),
    finalNorm: { name: "model.norm.weight", shape: [hiddenSize] },
    head: config.tiedEmbeddings ? undefined : head,
  };
}

function layerTensors(config: ModelConfig, layer: string): LayerTensors {
  const { hiddenSize, mlpSize, headDimensions, biases } = config;
  const querySize = config.headCount * headDimensions;
  const kvSize = config.kvHeadCount * headDimensions;
  const vector = (name: string, size: number) => ({ name: `${layer}.${name}`, shape: [size] });
  const bias = (name: string, size: number) => vector(`${name}.bias`, size);
  const whole = (name: string, outputs: number) =>
    matrix(`${layer}.${name}.weight`, outputs, hiddenSize);
  const qkv = fusedRows(`${layer}.self_attn.qkv_proj.weight`, hiddenSize);
  const gateAndUp = fusedRows(`${layer}.mlp.gate_up_proj.weight`, hiddenSize);
  const matrices = config.fusedTensors
    ? {
        query: qkv(0, querySize, querySize + 2 * kvSize),
        key: qkv(querySize, kvSize, querySize + 2 * kvSize),
        value: qkv(querySize + kvSize, kvSize, querySize + 2 * kvSize),
        gate: gateAndUp(0, mlpSize, 2 * mlpSize),
        up: gateAndUp(mlpSize, mlpSize, 2 * mlpSize),
      }
    : {
        query: whole("self_attn.q_proj", querySize),
        key: whole("self_attn.k_proj", kvSize),
        value: whole("self_attn.v_proj", kvSize),
        gate: whole("mlp.gate_proj", mlpSize),
        up: whole("mlp.up_proj", mlpSize),
      };
  return {
    attentionNorm: vector("input_layernorm.weight", hiddenSize),
    ...matrices,
    attentionOutput: matrix(`${layer}.self_attn.o_proj.weight`, hiddenSize, querySize),
    mlpNorm: vector("post_attention_layernorm.weight", hiddenSize),
    down: matrix(`${layer}.mlp.down_proj.weight`, hiddenSize, mlpSize),
    qkvBias: biases.qkv
      ? [
          bias("self_attn.q_proj", querySize),
          bias("self_attn.k_proj", kvSize),
          bias("self_attn.v_proj", kvSize),
        ]
      : [],
    attentionOutputBias: biases.attentionOutput ? [bias("self_attn.o_proj", hiddenSize)] : [],
    gateAndUpBias: biases.mlp ? [bias("mlp.gate_proj", mlpSize), bias("mlp.up_proj", mlpSize)] : [],
    downBias: biases.mlp ? [bias("mlp.down_proj", hiddenSize)] : [],
    headNorms: config.headNorms
      ? {
          query: vector("self_attn.q_norm.weight", headDimensions),
          key: vector("self_attn.k_norm.weight", headDimensions),
        }
      : undefined,
  };
}

function matrix(name: string, outputs: number, inputs: number): MatrixRows {
  return { name, shape: [outputs, inputs], first: 0, count: outputs };
}

/** Matrices that the checkpoint keeps below each other in one tensor. */
function fusedRows(name: string, inputs: number) {
  return (first: number, count: number, outputs: number): MatrixRows => {
    return { name, shape: [outputs, inputs], first, count };
  };
}
