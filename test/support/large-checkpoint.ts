import { open } from "node:fs/promises";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { seededRandom } from "../../src/base/random.ts";

/** 107 million weights in a usual shape, with the vocabulary of the bundled tokenizer. */
const LARGE_CONFIG = {
  model_type: "llama",
  hidden_size: 768,
  intermediate_size: 2048,
  num_hidden_layers: 16,
  num_attention_heads: 12,
  num_key_value_heads: 4,
  head_dim: 64,
  vocab_size: 4096,
  max_position_embeddings: 2048,
  rms_norm_eps: 1e-5,
  rope_theta: 10_000,
  tie_word_embeddings: false,
  eos_token_id: 1,
} as const;

const VALUES_MAX = 1 << 20;

/**
 * Writes a checkpoint with random bfloat16 weights of a size that takes part in memory. It is written piece
 * by piece, so that it takes none itself.
 */
export async function writeLargeCheckpoint(directory: string): Promise<void> {
  const { hidden_size: hidden, intermediate_size: mlp, vocab_size: vocabulary } = LARGE_CONFIG;
  const queries = LARGE_CONFIG.num_attention_heads * LARGE_CONFIG.head_dim;
  const keys = LARGE_CONFIG.num_key_value_heads * LARGE_CONFIG.head_dim;
  const tensors = new Map<string, readonly number[]>();
  tensors.set("model.embed_tokens.weight", [vocabulary, hidden]);
  for (let index = 0; index < LARGE_CONFIG.num_hidden_layers; index++) {
    const layer = `model.layers.${index}`;
    tensors.set(`${layer}.input_layernorm.weight`, [hidden]);
    tensors.set(`${layer}.self_attn.q_proj.weight`, [queries, hidden]);
    tensors.set(`${layer}.self_attn.k_proj.weight`, [keys, hidden]);
    tensors.set(`${layer}.self_attn.v_proj.weight`, [keys, hidden]);
    tensors.set(`${layer}.self_attn.o_proj.weight`, [hidden, queries]);
    tensors.set(`${layer}.post_attention_layernorm.weight`, [hidden]);
    tensors.set(`${layer}.mlp.gate_proj.weight`, [mlp, hidden]);
    tensors.set(`${layer}.mlp.up_proj.weight`, [mlp, hidden]);
    tensors.set(`${layer}.mlp.down_proj.weight`, [hidden, mlp]);
  }
  tensors.set("model.norm.weight", [hidden]);
  tensors.set("lm_head.weight", [vocabulary, hidden]);

  const header: Record<string, object> = {};
  let end = 0;
  for (const [name, shape] of tensors) {
    const start = end;
    end += 2 * sizeOf(shape);
    header[name] = { dtype: "BF16", shape, data_offsets: [start, end] };
  }
  const json = Buffer.from(JSON.stringify(header));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(json.length));
  await mkdir(directory, { recursive: true });
  await writeFile(join(directory, "config.json"), JSON.stringify(LARGE_CONFIG));
  const file = await open(join(directory, "model.safetensors"), "w");
  try {
    await file.write(length);
    await file.write(json);
    const ones = new Uint16Array(hidden).fill(0x3f80);
    const random = randomHalves();
    for (const shape of tensors.values()) {
      if (shape.length === 1) await file.write(ones);
      else for (const piece of piecesOf(random, sizeOf(shape))) await file.write(piece);
    }
  } finally {
    await file.close();
  }
}

/** More parameters than 100 million. */
export const LARGE_PARAMETERS =
  LARGE_CONFIG.num_hidden_layers *
    ((2 * 12 + 2 * 4) * 64 * LARGE_CONFIG.hidden_size +
      3 * LARGE_CONFIG.hidden_size * LARGE_CONFIG.intermediate_size +
      2 * LARGE_CONFIG.hidden_size) +
  (2 * LARGE_CONFIG.vocab_size + 1) * LARGE_CONFIG.hidden_size;

const sizeOf = (shape: readonly number[]) => shape.reduce((product, size) => product * size, 1);

/** Bfloat16 numbers of either sign between 0.008 and 0.062. */
function randomHalves(): Uint16Array {
  const random = seededRandom(1);
  return Uint16Array.from({ length: VALUES_MAX }, () => {
    const sign = random() < 0.5 ? 0 : 0x8000;
    return sign | (0x3c00 + Math.floor(random() * 0x180));
  });
}

/** So many values, always from another place of the random ones on. */
function* piecesOf(values: Uint16Array, count: number): Generator<Uint16Array> {
  let place = (count * 7919) % values.length;
  for (let left = count; left > 0;) {
    const piece = values.subarray(place, Math.min(values.length, place + left));
    yield piece;
    left -= piece.length;
    place = 0;
  }
}
