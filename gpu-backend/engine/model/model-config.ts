import * as z from "zod";
import { ModelError } from "./model-error.ts";
import { parseJson } from "./parse-json.ts";

/** The shape of a Llama-like model, as the engine computes it. */
export interface ModelConfig {
  readonly hiddenSize: number;
  readonly layerCount: number;
  readonly headCount: number;
  /** Heads of keys and values; each serves `headCount / kvHeadCount` query heads. */
  readonly kvHeadCount: number;
  readonly headDimensions: number;
  readonly mlpSize: number;
  readonly vocabularyTokens: number;
  /** The longest sequence whose positions the model was trained on. */
  readonly contextTokens: number;
  readonly ropeTheta: number;
  readonly normEpsilon: number;
  /** The embedding matrix is also the output matrix. */
  readonly tiedEmbeddings: boolean;
  /** Tokens that end the output, as config.json has them; generation_config.json may say otherwise. */
  readonly eosTokenIds: readonly number[];
}

/** How keys and values are kept: as floats, or as bytes with a scale for each head of a token. */
export type KvPrecision = "f32" | "int8";

const FLOAT_BYTES = 4;

/** What the keys and values of one token take over all layers. */
export function kvTokenBytes(
  { layerCount, kvHeadCount, headDimensions }: ModelConfig,
  kvPrecision: KvPrecision,
): number {
  const headBytes =
    kvPrecision === "f32" ? headDimensions * FLOAT_BYTES : headDimensions + FLOAT_BYTES;
  return 2 * layerCount * kvHeadCount * headBytes;
}

// Far above every published model; they keep a broken file from asking for all of the memory.
const SIZE_MAX = 1 << 20;
const LAYERS_MAX = 1024;

const Size = z.int().min(1).max(SIZE_MAX);

/** One token id or several; both spellings are common. */
export const TokenIds = z
  .union([z.int().min(0), z.array(z.int().min(0)).max(64)])
  .nullable()
  .transform((ids) => (ids === null ? [] : typeof ids === "number" ? [ids] : ids));

/**
 * config.json of a Hugging Face checkpoint. What may be absent has the default of `LlamaConfig` in
 * transformers; keys that do not change the computation are ignored.
 */
const HuggingFaceConfig = z.object({
  model_type: z.literal("llama"),
  hidden_size: Size,
  intermediate_size: Size,
  num_hidden_layers: z.int().min(1).max(LAYERS_MAX),
  num_attention_heads: Size,
  num_key_value_heads: Size.nullish(),
  head_dim: Size.nullish(),
  vocab_size: Size,
  max_position_embeddings: Size.default(2048),
  rms_norm_eps: z.number().min(0).max(1).default(1e-6),
  hidden_act: z.literal("silu").default("silu"),
  attention_bias: z.literal(false).default(false),
  mlp_bias: z.literal(false).default(false),
  tie_word_embeddings: z.boolean().default(false),
  rope_theta: z.number().positive().optional(),
  rope_scaling: z.null().optional(),
  /** Where transformers 5 keeps theta and the kind of scaling. */
  rope_parameters: z
    .object({
      rope_type: z.literal("default").default("default"),
      rope_theta: z.number().positive().optional(),
    })
    .optional(),
  partial_rotary_factor: z.literal(1).optional(),
  sliding_window: z.null().optional(),
  quantization_config: z.null().optional(),
  eos_token_id: TokenIds.default([2]),
});

/** What each refused key would ask of the engine, for the message. */
const UNSUPPORTED: Readonly<Record<string, string>> = {
  model_type: "another architecture than Llama",
  hidden_act: "another activation than SiLU",
  attention_bias: "biases in the attention projections",
  mlp_bias: "biases in the MLP",
  rope_scaling: "scaled rotary positions",
  rope_parameters: "scaled rotary positions",
  partial_rotary_factor: "rotary positions on a part of each head",
  sliding_window: "sliding-window attention",
  quantization_config: "weights that are quantized in the file",
};

const ROPE_THETA_DEFAULT = 10_000;
/** The attention kernel works on 16 dimensions at a time. */
const HEAD_DIMENSIONS_STEP = 16;

/**
 * Reads config.json; `path` names it in errors. Throws a `ModelError` for anything but a Llama
 * whose every setting this engine computes, since a silent difference would garble the text.
 */
export function parseModelConfig(json: string, path: string): ModelConfig {
  const parsed = HuggingFaceConfig.safeParse(parseJson(json, path));
  if (!parsed.success) throw new ModelError(describe(parsed.error, path));
  const config = parsed.data;
  const headCount = config.num_attention_heads;
  const kvHeadCount = config.num_key_value_heads ?? headCount;
  const headDimensions = config.head_dim ?? Math.floor(config.hidden_size / headCount);
  if (headCount % kvHeadCount !== 0) {
    throw new ModelError(
      `${path}: num_attention_heads ${headCount} must be a multiple of num_key_value_heads ${kvHeadCount}`,
    );
  }
  if (headDimensions % HEAD_DIMENSIONS_STEP !== 0 || headDimensions === 0) {
    throw new ModelError(
      `${path}: heads have ${headDimensions} dimensions, but the attention kernel needs a multiple of ${HEAD_DIMENSIONS_STEP}; serve this model with another engine`,
    );
  }
  return {
    hiddenSize: config.hidden_size,
    layerCount: config.num_hidden_layers,
    headCount,
    kvHeadCount,
    headDimensions,
    mlpSize: config.intermediate_size,
    vocabularyTokens: config.vocab_size,
    contextTokens: config.max_position_embeddings,
    ropeTheta: config.rope_parameters?.rope_theta ?? config.rope_theta ?? ROPE_THETA_DEFAULT,
    normEpsilon: config.rms_norm_eps,
    tiedEmbeddings: config.tie_word_embeddings,
    eosTokenIds: config.eos_token_id,
  };
}

/** The first problem only: the operator fixes one, or takes another model. */
function describe(error: z.ZodError, path: string): string {
  const issue = error.issues[0];
  const key = issue?.path.join(".") ?? "";
  const unsupported = UNSUPPORTED[String(issue?.path[0])];
  if (unsupported !== undefined) {
    return `${path}: ${key} asks for ${unsupported}, which this engine does not compute (${issue?.message}); serve this model with another engine`;
  }
  return `${path}: ${key === "" ? "the file" : key} is not as expected: ${issue?.message}`;
}
