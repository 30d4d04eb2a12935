import { type CheckpointShape, SMALL_SHAPE } from "./random-checkpoint.ts";

/** What users bring: each differs from the plainest Llama in what its family does otherwise. */
export const VARIANTS: Readonly<Record<string, CheckpointShape>> = {
  "Llama 2, a key and value for each query": {
    ...SMALL_SHAPE,
    model_type: "llama",
    num_key_value_heads: 4,
  },
  "Llama 3.1, rope llama3": {
    ...SMALL_SHAPE,
    model_type: "llama",
    head_dim: 32,
    rope_theta: 5000,
    rope_scaling: {
      rope_type: "llama3",
      factor: 8,
      low_freq_factor: 1,
      high_freq_factor: 4,
      original_max_position_embeddings: 64,
    },
  },
  "SmolLM2, tied": {
    ...SMALL_SHAPE,
    model_type: "llama",
    tie_word_embeddings: true,
    num_attention_heads: 6,
  },
  "one key and value for all queries, heads apart from the hidden size": {
    ...SMALL_SHAPE,
    model_type: "llama",
    num_attention_heads: 3,
    num_key_value_heads: 1,
    head_dim: 48,
  },
  "Llama with all biases": {
    ...SMALL_SHAPE,
    model_type: "llama",
    attention_bias: true,
    mlp_bias: true,
  },
  "rope linear": {
    ...SMALL_SHAPE,
    model_type: "llama",
    rope_scaling: { type: "linear", factor: 2.5 },
  },
  "rope dynamic, within its context": {
    ...SMALL_SHAPE,
    model_type: "llama",
    rope_scaling: { type: "dynamic", factor: 2 },
  },
  "rope yarn": {
    ...SMALL_SHAPE,
    model_type: "llama",
    head_dim: 64,
    max_position_embeddings: 64,
    rope_scaling: { rope_type: "yarn", factor: 4, original_max_position_embeddings: 64 },
  },
  "rope yarn with a temperature of its own": {
    ...SMALL_SHAPE,
    model_type: "llama",
    head_dim: 32,
    max_position_embeddings: 128,
    rope_scaling: {
      rope_type: "yarn",
      factor: 2,
      beta_fast: 8,
      beta_slow: 2,
      attention_factor: 1.5,
    },
  },
  "Mistral, as long as its window": { ...SMALL_SHAPE, model_type: "mistral", sliding_window: 100 },
  "Qwen2.5, biases of queries, keys and values": {
    ...SMALL_SHAPE,
    model_type: "qwen2",
    sliding_window: 32,
    use_sliding_window: false,
    tie_word_embeddings: true,
  },
  "Qwen3, normed queries and keys": { ...SMALL_SHAPE, model_type: "qwen3", head_dim: 32 },
  "Qwen3 with biases": { ...SMALL_SHAPE, model_type: "qwen3", attention_bias: true },
  "Phi-3, fused tensors": {
    ...SMALL_SHAPE,
    model_type: "phi3",
    head_dim: 96,
    num_key_value_heads: 4,
  },
  "Gemma, one key and value for all queries": {
    ...SMALL_SHAPE,
    model_type: "gemma",
    num_key_value_heads: 1,
    head_dim: 64,
    tie_word_embeddings: true,
    hidden_act: "gelu",
  },
};
