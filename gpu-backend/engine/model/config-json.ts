import * as z from "zod";
import { RopeScalingJson } from "./rope-scaling.ts";

// Far above every published model; they keep a broken file from asking for all of the memory.
const SIZE_MAX = 1 << 20;
const POSITIONS_MAX = 1 << 24;
const LAYERS_MAX = 1024;

const Size = z.int().min(1).max(SIZE_MAX);

/** One token id or several; both spellings are common. */
export const TokenIds = z
  .union([z.int().min(0), z.array(z.int().min(0)).max(64)])
  .nullable()
  .transform((ids) => (ids === null ? [] : typeof ids === "number" ? [ids] : ids));

/** config.json of a Hugging Face checkpoint; keys that do not change the computation are ignored. */
export const ConfigJson = z.looseObject({
  hidden_size: Size,
  intermediate_size: Size,
  num_hidden_layers: z.int().min(1).max(LAYERS_MAX),
  num_attention_heads: Size,
  num_key_value_heads: Size.nullish(),
  head_dim: Size.nullish(),
  vocab_size: Size,
  max_position_embeddings: z.int().min(1).max(POSITIONS_MAX).nullish(),
  rms_norm_eps: z.number().min(0).max(1).nullish(),
  hidden_act: z.string().max(64).nullish(),
  hidden_activation: z.string().max(64).nullish(),
  attention_bias: z.boolean().default(false),
  mlp_bias: z.boolean().default(false),
  tie_word_embeddings: z.boolean().nullish(),
  rope_theta: z.number().positive().max(1e12).optional(),
  rope_scaling: RopeScalingJson.nullish(),
  rope_parameters: RopeScalingJson.nullish(),
  partial_rotary_factor: z.number().nullish(),
  sliding_window: z.int().min(1).max(POSITIONS_MAX).nullish(),
  use_sliding_window: z.boolean().nullish(),
  max_window_layers: z.int().min(0).nullish(),
  layer_types: z.array(z.string().max(64)).max(LAYERS_MAX).nullish(),
  eos_token_id: TokenIds.optional(),
});
export type ParsedConfigJson = z.infer<typeof ConfigJson>;

/** Keys that ask for more than this engine computes, unless they are absent, null or false. */
export const REFUSED_UNLESS_ABSENT: Readonly<Record<string, string>> = {
  quantization_config: "weights that are quantized in the file",
  attn_logit_softcapping: "soft-capped attention scores",
  final_logit_softcapping: "soft-capped logits",
  num_local_experts: "a mixture of experts",
  num_experts: "a mixture of experts",
  n_routed_experts: "a mixture of experts",
  use_bidirectional_attention: "attention to later tokens",
  clip_qkv: "clipped queries, keys and values",
  no_rope_layers: "layers without rotary positions",
  embedding_multiplier: "scaled embeddings",
  residual_multiplier: "scaled residuals",
  attention_multiplier: "scaled attention scores",
  logits_scaling: "scaled logits",
  logit_scale: "scaled logits",
};
