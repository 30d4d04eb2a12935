import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { seededRandom } from "../../src/base/random.ts";

/** A tensor by the definition of the format: row-major. */
export interface PlainTensor {
  readonly shape: readonly number[];
  readonly values: Float32Array;
}

/** A checkpoint as its files say it: config.json, and tensors by their names in the files. */
export interface PlainCheckpoint {
  readonly config: Readonly<Record<string, unknown>>;
  readonly tensors: ReadonlyMap<string, PlainTensor>;
}

/** What a test says of a checkpoint's shape, in the words of config.json. */
export interface CheckpointShape {
  readonly model_type: string;
  readonly hidden_size: number;
  readonly intermediate_size: number;
  readonly num_hidden_layers: number;
  readonly num_attention_heads: number;
  readonly num_key_value_heads: number;
  readonly head_dim: number;
  readonly vocab_size: number;
  readonly tie_word_embeddings: boolean;
  readonly [key: string]: unknown;
}

/**
 * Random weights for a shape, named as Hugging Face names them. All are whole numbers of at most seven
 * bits times a power of two, so that every element type holds them exactly.
 */
export function randomCheckpoint(seed: number, config: CheckpointShape): PlainCheckpoint {
  const random = seededRandom(seed);
  const tensors = new Map<string, PlainTensor>();
  const add = (name: string, shape: readonly number[], spread: number) => {
    const step = 2 ** Math.round(Math.log2(spread / 127));
    const count = shape.reduce((product, size) => product * size, 1);
    const values = Float32Array.from({ length: count }, () => {
      return step * (Math.floor(random() * 255) - 127);
    });
    tensors.set(name, { shape, values });
  };
  const matrix = (name: string, outputs: number, inputs: number) =>
    add(`${name}.weight`, [outputs, inputs], 1.5 / Math.sqrt(inputs));
  const bias = (name: string, size: number) => add(`${name}.bias`, [size], 0.5);
  // Around 1 a bfloat16 has steps of 2^-7.
  const norm = (name: string, size: number, center = 1) =>
    tensors.set(`${name}.weight`, {
      shape: [size],
      values: Float32Array.from({ length: size }, () => {
        return center + (Math.floor(random() * 97) - 48) / 128;
      }),
    });

  const { model_type: type, hidden_size: hidden, intermediate_size: mlp, head_dim: head } = config;
  const queries = config.num_attention_heads * head;
  const keys = config.num_key_value_heads * head;
  const normCenter = type === "gemma" ? 0 : 1;
  const hasAttentionBias = config["attention_bias"] === true;
  matrix("model.embed_tokens", config.vocab_size, hidden);
  for (let index = 0; index < config.num_hidden_layers; index++) {
    const layer = `model.layers.${index}`;
    norm(`${layer}.input_layernorm`, hidden, normCenter);
    norm(`${layer}.post_attention_layernorm`, hidden, normCenter);
    if (type === "phi3") {
      matrix(`${layer}.self_attn.qkv_proj`, queries + 2 * keys, hidden);
      matrix(`${layer}.mlp.gate_up_proj`, 2 * mlp, hidden);
    } else {
      matrix(`${layer}.self_attn.q_proj`, queries, hidden);
      matrix(`${layer}.self_attn.k_proj`, keys, hidden);
      matrix(`${layer}.self_attn.v_proj`, keys, hidden);
      matrix(`${layer}.mlp.gate_proj`, mlp, hidden);
      matrix(`${layer}.mlp.up_proj`, mlp, hidden);
    }
    matrix(`${layer}.self_attn.o_proj`, hidden, queries);
    matrix(`${layer}.mlp.down_proj`, hidden, mlp);
    if (hasAttentionBias || type === "qwen2") {
      bias(`${layer}.self_attn.q_proj`, queries);
      bias(`${layer}.self_attn.k_proj`, keys);
      bias(`${layer}.self_attn.v_proj`, keys);
    }
    if (hasAttentionBias) bias(`${layer}.self_attn.o_proj`, hidden);
    if (config["mlp_bias"] === true) {
      bias(`${layer}.mlp.gate_proj`, mlp);
      bias(`${layer}.mlp.up_proj`, mlp);
      bias(`${layer}.mlp.down_proj`, hidden);
    }
    if (type === "qwen3") {
      norm(`${layer}.self_attn.q_norm`, head);
      norm(`${layer}.self_attn.k_norm`, head);
    }
  }
  norm("model.norm", hidden, normCenter);
  if (!config.tie_word_embeddings) matrix("lm_head", config.vocab_size, hidden);
  return { config, tensors };
}

export type StoredType = "F32" | "BF16" | "F16";

/** Sizes that load in a moment; none but a head's is a multiple of a vector's width. */
export const SMALL_SHAPE = {
  model_type: "llama",
  hidden_size: 54,
  intermediate_size: 75,
  num_hidden_layers: 3,
  num_attention_heads: 4,
  num_key_value_heads: 2,
  head_dim: 16,
  vocab_size: 67,
  max_position_embeddings: 256,
  rms_norm_eps: 1e-5,
  rope_theta: 10_000,
  tie_word_embeddings: false,
} as const;

/** Writes a checkpoint's files, in as many shards as asked for. */
export async function writeCheckpoint(
  directory: string,
  { config, tensors }: PlainCheckpoint,
  { type = "F32", shards = 1 }: { readonly type?: StoredType; readonly shards?: number } = {},
): Promise<void> {
  await mkdir(directory, { recursive: true });
  await writeFile(join(directory, "config.json"), JSON.stringify(config));
  const names = [...tensors.keys()];
  if (shards === 1) {
    await writeFile(join(directory, "model.safetensors"), encodeShard(tensors, names, type));
    return;
  }
  const weightMap: Record<string, string> = {};
  for (let shard = 0; shard < shards; shard++) {
    const file = `model-${fiveDigits(shard + 1)}-of-${fiveDigits(shards)}.safetensors`;
    const own = names.filter((_, index) => index % shards === shard);
    for (const name of own) weightMap[name] = file;
    await writeFile(join(directory, file), encodeShard(tensors, own, type));
  }
  const index = JSON.stringify({ metadata: {}, weight_map: weightMap });
  await writeFile(join(directory, "model.safetensors.index.json"), index);
}

const fiveDigits = (count: number) => String(count).padStart(5, "0");

function encodeShard(
  tensors: ReadonlyMap<string, PlainTensor>,
  names: readonly string[],
  type: StoredType,
): Buffer {
  const header: Record<string, unknown> = { __metadata__: { format: "pt" } };
  const parts: Uint8Array[] = [];
  let end = 0;
  for (const name of names) {
    const tensor = tensors.get(name);
    if (tensor === undefined) throw new Error(`there is no ${name}`);
    const bytes = encodeValues(tensor.values, type);
    const start = end;
    end += bytes.byteLength;
    header[name] = { dtype: type, shape: tensor.shape, data_offsets: [start, end] };
    parts.push(bytes);
  }
  return encodeSafetensors(header, Buffer.concat(parts));
}

/** A file with this header, as an object or as text, and these bytes of values behind it. */
export function encodeSafetensors(header: unknown, values: Uint8Array): Buffer {
  const json = Buffer.from(typeof header === "string" ? header : JSON.stringify(header));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(json.length));
  return Buffer.concat([length, json, values]);
}

function encodeValues(values: Float32Array, type: StoredType): Uint8Array {
  if (type === "F32") return new Uint8Array(values.slice().buffer);
  const bits = new Uint32Array(values.slice().buffer);
  const halves = Uint16Array.from(bits, type === "BF16" ? (word) => word >>> 16 : toFloat16);
  return new Uint8Array(halves.buffer);
}

/** For numbers that a normal half-precision number holds exactly, and zero. */
function toFloat16(bits: number): number {
  const sign = (bits >>> 16) & 0x8000;
  if ((bits & 0x7fffffff) === 0) return sign;
  const exponent = ((bits >>> 23) & 0xff) - 112;
  const fraction = bits & 0x7fffff;
  if (exponent < 1 || exponent > 30 || (fraction & 0x1fff) !== 0) {
    throw new Error("half precision does not hold this number exactly");
  }
  return sign | (exponent << 10) | (fraction >>> 13);
}
