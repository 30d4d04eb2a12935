import * as z from "zod";
import { ARCHITECTURES, type Architecture, whatIsMissingFor } from "./architectures.ts";
import { ConfigJson, type ParsedConfigJson, REFUSED_UNLESS_ABSENT } from "./config-json.ts";
import { ModelError } from "./model-error.ts";
import { parseJson } from "./parse-json.ts";
import { readRopeScaling, type RopeScaling } from "./rope-scaling.ts";
import { windowOf } from "./sliding-window.ts";

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
  /** The longest sequence whose positions the model was trained on, and whose attention is computed. */
  readonly contextTokens: number;
  readonly ropeTheta: number;
  readonly ropeScaling: RopeScaling;
  readonly normEpsilon: number;
  /** What is added to the weights of every norm: 1 where they are stored as what differs from it. */
  readonly normOffset: number;
  /** What looked-up embeddings are multiplied with. */
  readonly embeddingScale: number;
  readonly activation: "silu" | "gelu-tanh";
  readonly biases: {
    readonly qkv: boolean;
    readonly attentionOutput: boolean;
    readonly mlp: boolean;
  };
  /** Queries and keys are normed, head by head, before they are rotated. */
  readonly headNorms: boolean;
  /** Queries, keys and values are one tensor of the file, and so are gate and up. */
  readonly fusedTensors: boolean;
  /** The embedding matrix is also the output matrix. */
  readonly tiedEmbeddings: boolean;
  /** Tokens that end the output, as config.json has them; generation_config.json may say otherwise. */
  readonly eosTokenIds: readonly number[];
  /** Sentences for the operator, say that the context was cut. */
  readonly notes: readonly string[];
}

/** How keys and values are kept: as floats, or as bytes with a scale for each head of a token. */
export type KvPrecision = "f32" | "int8";

const FLOAT_BYTES = 4;

/** What the keys and values of one token take over all layers. */
export function kvTokenBytes(
  {
    layerCount,
    kvHeadCount,
    headDimensions,
  }: Pick<ModelConfig, "layerCount" | "kvHeadCount" | "headDimensions">,
  kvPrecision: KvPrecision,
): number {
  const headBytes =
    kvPrecision === "f32" ? headDimensions * FLOAT_BYTES : headDimensions + FLOAT_BYTES;
  return 2 * layerCount * kvHeadCount * headBytes;
}

const ROPE_THETA_DEFAULT = 10_000;
/** The attention kernel works on 16 dimensions at a time. */
const HEAD_DIMENSIONS_STEP = 16;
/** Sums of more products of 8-bit keys would not fit 32 bits; see `gpu-backend/kernels/byte-attention.ts`. */
export const HEAD_DIMENSIONS_MAX = 512;

const LAYER_TYPES: ReadonlySet<string> = new Set(["full_attention", "sliding_attention"]);

const ACTIVATIONS: ReadonlyMap<string, ModelConfig["activation"]> = new Map([
  ["silu", "silu"],
  ["swish", "silu"],
  ["gelu_pytorch_tanh", "gelu-tanh"],
  ["gelu_new", "gelu-tanh"],
  ["gelu_fast", "gelu-tanh"],
]);

/**
 * Reads config.json; `path` names it in errors. Throws a `ModelError` for anything but a model
 * whose every setting this engine computes, since a silent difference would garble the text.
 */
export function parseModelConfig(json: string, path: string): ModelConfig {
  const value = parseJson(json, path);
  const architecture = architectureOf(value, path);
  const parsed = ConfigJson.safeParse(value);
  if (!parsed.success) throw new ModelError(describe(parsed.error, path));
  return new ConfigReader(parsed.data, architecture, path).read();
}

const ModelType = z.looseObject({ model_type: z.string().max(128) });

/** First of all, since the other keys mean something only under a model_type that is known. */
function architectureOf(value: unknown, path: string): Architecture {
  const parsed = ModelType.safeParse(value);
  if (!parsed.success) throw new ModelError(describe(parsed.error, path));
  const { model_type: modelType } = parsed.data;
  const architecture = ARCHITECTURES.get(modelType);
  if (architecture !== undefined) return architecture;
  throw unsupported(path, `model_type "${modelType}"`, whatIsMissingFor(modelType));
}

class ConfigReader {
  readonly #json: ParsedConfigJson;
  readonly #architecture: Architecture;
  readonly #path: string;

  constructor(json: ParsedConfigJson, architecture: Architecture, path: string) {
    this.#json = json;
    this.#architecture = architecture;
    this.#path = path;
  }

  read(): ModelConfig {
    const config = this.#json;
    const architecture = this.#architecture;
    this.#refuseUnsupported();
    const { contextTokens, ropeScaling, notes } = this.#positions();
    return {
      hiddenSize: config.hidden_size,
      layerCount: config.num_hidden_layers,
      ...this.#heads(),
      mlpSize: config.intermediate_size,
      vocabularyTokens: config.vocab_size,
      contextTokens,
      ropeTheta: this.#rope()?.rope_theta ?? config.rope_theta ?? ROPE_THETA_DEFAULT,
      ropeScaling,
      normEpsilon: config.rms_norm_eps ?? architecture.normEpsilon,
      normOffset: architecture.isGemma ? 1 : 0,
      embeddingScale: architecture.isGemma ? Math.fround(Math.sqrt(config.hidden_size)) : 1,
      activation: this.#activation(),
      biases: {
        qkv: usesBias(architecture.qkvBias, config.attention_bias),
        attentionOutput: usesBias(architecture.outputBias, config.attention_bias),
        mlp: usesBias(architecture.mlpBias, config.mlp_bias),
      },
      headNorms: architecture.headNorms,
      fusedTensors: architecture.isFused,
      tiedEmbeddings: config.tie_word_embeddings ?? architecture.tiedEmbeddings,
      eosTokenIds: config.eos_token_id ?? architecture.eosTokenIds,
      notes,
    };
  }

  #refuseUnsupported(): void {
    for (const [key, reason] of Object.entries(REFUSED_UNLESS_ABSENT)) {
      const value = this.#json[key];
      if (value === undefined || value === null || value === false) continue;
      throw unsupported(this.#path, key, reason);
    }
    const unknownLayer = this.#json.layer_types?.find((type) => !LAYER_TYPES.has(type));
    if (unknownLayer !== undefined) {
      throw unsupported(this.#path, `layer_types "${unknownLayer}"`, "another kind of layer");
    }
    if (Object.values(this.#rope() ?? {}).some((value) => isObject(value))) {
      throw unsupported(this.#path, "rope_parameters", "rotary positions that differ by layer");
    }
    const { partial_rotary_factor: own } = this.#json;
    for (const share of [own, this.#rope()?.partial_rotary_factor]) {
      if (share === undefined || share === null || share === 1) continue;
      const reason = "rotary positions on a part of each head";
      throw unsupported(this.#path, `partial_rotary_factor ${share}`, reason);
    }
  }

  #heads(): Pick<ModelConfig, "headCount" | "kvHeadCount" | "headDimensions"> {
    const config = this.#json;
    const headCount = config.num_attention_heads;
    const kvHeadCount =
      config.num_key_value_heads === undefined
        ? (this.#architecture.kvHeadCount ?? headCount)
        : (config.num_key_value_heads ?? headCount);
    const headDimensions =
      config.head_dim ??
      this.#architecture.headDimensions ??
      Math.floor(config.hidden_size / headCount);
    if (headCount % kvHeadCount !== 0) {
      throw new ModelError(
        `${this.#path}: num_attention_heads ${headCount} must be a multiple of num_key_value_heads ${kvHeadCount}`,
      );
    }
    const isWhole = headDimensions % HEAD_DIMENSIONS_STEP === 0 && headDimensions > 0;
    if (!isWhole || headDimensions > HEAD_DIMENSIONS_MAX) {
      throw new ModelError(
        `${this.#path}: heads have ${headDimensions} dimensions, but the attention kernel needs a multiple of ${HEAD_DIMENSIONS_STEP}, at most ${HEAD_DIMENSIONS_MAX}; serve this model with another engine`,
      );
    }
    return { headCount, kvHeadCount, headDimensions };
  }

  #activation(): ModelConfig["activation"] {
    const { hidden_act: written, hidden_activation: gemmas } = this.#json;
    const { activation: usual, isGemma } = this.#architecture;
    // Gemma's first files say "gelu" and mean its approximation, as transformers does.
    const name = isGemma ? (gemmas ?? (written === "gelu" ? usual : written)) : written;
    const activation = ACTIVATIONS.get(name ?? usual);
    if (activation !== undefined) return activation;
    throw unsupported(
      this.#path,
      `hidden_act "${name}"`,
      "another activation than SiLU or tanh-GELU",
    );
  }

  /** Where transformers 5 keeps theta and the kind of scaling, or where older files do. */
  #rope() {
    return this.#json.rope_parameters ?? this.#json.rope_scaling;
  }

  #positions(): Pick<ModelConfig, "contextTokens" | "ropeScaling" | "notes"> {
    const trained = this.#json.max_position_embeddings ?? this.#architecture.contextTokens;
    const rope = readRopeScaling(this.#rope(), trained);
    if (rope.kind === "unsupported") {
      const reason = "rotary positions that are scaled in a way it does not know";
      throw unsupported(this.#path, `rope_scaling "${rope.name}"`, reason);
    }
    if (rope.kind === "invalid")
      throw new ModelError(describe(rope.error, this.#path, "rope_scaling"));
    const window = windowOf(this.#json, this.#architecture);
    if (window === undefined || window >= rope.contextTokens) {
      return { contextTokens: rope.contextTokens, ropeScaling: rope.scaling, notes: [] };
    }
    const note = `The context is ${window} tokens of the model's ${rope.contextTokens}: up to there its sliding window is the whole text, and attention beyond it is not computed`;
    return { contextTokens: window, ropeScaling: rope.scaling, notes: [note] };
  }
}

/** Whether a model has a bias that its architecture and a key of its configuration decide. */
function usesBias(kind: "always" | "never" | "configured", flag: boolean): boolean {
  return kind === "always" || (kind === "configured" && flag);
}

const isObject = (value: unknown) =>
  typeof value === "object" && value !== null && !Array.isArray(value);

function unsupported(path: string, found: string, reason: string): ModelError {
  return new ModelError(
    `${path}: ${found} asks for ${reason}, which this engine does not compute; serve this model with another engine`,
  );
}

/** The first problem only: the operator fixes one, or takes another model. */
function describe(error: z.ZodError, path: string, within?: string): string {
  const issue = error.issues[0];
  const key = [...(within === undefined ? [] : [within]), ...(issue?.path ?? [])].join(".");
  return `${path}: ${key === "" ? "the file" : key} is not as expected: ${issue?.message}`;
}
