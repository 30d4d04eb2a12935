import { closeSync, openSync, writeSync } from "node:fs";
import type { LayerWeights, LoadedModel } from "../../gpu-backend/engine/model/load-model.ts";
import {
  holdMatrix,
  type Matrix,
  readWhole,
  stackMatrices,
} from "../../gpu-backend/engine/model/matrix.ts";
import { assert } from "../../src/base/assert.ts";
import { toHalf } from "./half-float.ts";

/** How matrices are stored: as they are, or 32 values at a time in int8 under a scale in f16. */
export type GgufPrecision = "f32" | "q8_0";

/** Values of a block of q8_0; rows are whole blocks. */
const BLOCK_VALUES = 32;
const BLOCK_BYTES = 2 + BLOCK_VALUES;
const ALIGNMENT_BYTES = 32;
const VERSION = 3;

/** Numbers of the format, as `ggml/docs/gguf.md` has them. */
const VALUE_TYPES = { uint32: 4, int32: 5, float32: 6, bool: 7, string: 8, array: 9 } as const;
const TENSOR_TYPES = { f32: 0, q8_0: 8 } as const;
const FILE_TYPES = { f32: 0, q8_0: 7 } as const;
const TOKEN_TYPES = { normal: 1, unknown: 2, control: 3, byte: 6 } as const;

interface Tensor {
  readonly name: string;
  readonly matrix: Matrix;
  readonly precision: GgufPrecision;
}

/**
 * Writes a model's weights as a GGUF file (version 3) that llama.cpp loads: the very same function,
 * though its tokenizer is a list of empty names, since only token ids go in and out.
 *
 * Two things are laid out otherwise. llama.cpp rotates neighbouring dimensions of a head, checkpoints
 * of Hugging Face its two halves, so rows of queries and keys change places. And its q8_0 has rows
 * of whole blocks, so an MLP of another width is padded with zeros, in both precisions.
 */
export function writeGguf(path: string, model: LoadedModel, precision: GgufPrecision): void {
  const file = openSync(path, "w");
  try {
    const tensors = tensorsOf(model, precision);
    const head = new ByteWriter();
    head.bytes(Buffer.from("GGUF")).uint32(VERSION).uint64(tensors.length);
    writeMetadata(head, model, precision);
    let offset = 0;
    for (const tensor of tensors) {
      const { name, matrix } = tensor;
      const dimensions = matrix.outputs === 1 ? [matrix.inputs] : [matrix.inputs, matrix.outputs];
      head.text(name).uint32(dimensions.length);
      for (const dimension of dimensions) head.uint64(dimension);
      head.uint32(TENSOR_TYPES[tensor.precision]).uint64(offset);
      offset += padded(tensorBytes(tensor), ALIGNMENT_BYTES);
    }
    writeAligned(file, head.toBytes());
    for (const tensor of tensors) writeAligned(file, encode(tensor));
  } finally {
    closeSync(file);
  }
}

function tensorsOf(model: LoadedModel, precision: GgufPrecision): Tensor[] {
  const { config, embedding, layers, finalNorm, head } = model;
  const stored = (name: string, matrix: Matrix): Tensor => {
    return { name: `${name}.weight`, matrix, precision };
  };
  const ofLayer = (layer: LayerWeights, index: number): Tensor[] => {
    const { headDimensions, mlpSize } = config;
    const mlpPadded = padded(mlpSize, BLOCK_VALUES);
    const block = `blk.${index}`;
    return [
      norm(`${block}.attn_norm`, layer.attentionNorm),
      stored(`${block}.attn_q`, interleaveHalves(layer.query, headDimensions)),
      stored(`${block}.attn_k`, interleaveHalves(layer.key, headDimensions)),
      stored(`${block}.attn_v`, layer.value),
      stored(`${block}.attn_output`, layer.attentionOutput),
      norm(`${block}.ffn_norm`, layer.mlpNorm),
      stored(`${block}.ffn_gate`, padOutputs(layer.gate, mlpPadded)),
      stored(`${block}.ffn_up`, padOutputs(layer.up, mlpPadded)),
      stored(`${block}.ffn_down`, padInputs(layer.down, mlpPadded)),
    ];
  };
  return [
    stored("token_embd", embedding),
    norm("output_norm", finalNorm),
    // Without an output matrix llama.cpp takes the embedding.
    ...(config.tiedEmbeddings ? [] : [stored("output", head)]),
    ...layers.flatMap(ofLayer),
  ];
}

/** A norm is a vector, and stays f32. */
function norm(name: string, values: Float32Array): Tensor {
  const matrix = holdMatrix(1, values.length, values);
  return { name: `${name}.weight`, matrix, precision: "f32" };
}

/** Each head's dimension i and i + half come to lie side by side. */
function interleaveHalves(matrix: Matrix, headDimensions: number): Matrix {
  const { outputs, inputs } = matrix;
  const weights = readWhole(matrix);
  const values = new Float32Array(weights.length);
  const half = headDimensions / 2;
  for (let output = 0; output < outputs; output++) {
    const head = Math.floor(output / headDimensions) * headDimensions;
    const dimension = output % headDimensions;
    const from = head + (dimension % 2) * half + Math.floor(dimension / 2);
    values.set(weights.subarray(from * inputs, (from + 1) * inputs), output * inputs);
  }
  return holdMatrix(outputs, inputs, values);
}

function padOutputs(matrix: Matrix, outputs: number): Matrix {
  const missing = outputs - matrix.outputs;
  if (missing === 0) return matrix;
  const { inputs } = matrix;
  const zeros = holdMatrix(missing, inputs, new Float32Array(missing * inputs));
  return stackMatrices([matrix, zeros]);
}

function padInputs(matrix: Matrix, inputs: number): Matrix {
  const { outputs } = matrix;
  const values = new Float32Array(outputs * inputs);
  for (let output = 0; output < outputs; output++) {
    values.set(matrix.rows(output, 1), output * inputs);
  }
  return holdMatrix(outputs, inputs, values);
}

function tensorBytes({ matrix, precision }: Tensor): number {
  const count = matrix.outputs * matrix.inputs;
  return precision === "f32" ? count * 4 : (count / BLOCK_VALUES) * BLOCK_BYTES;
}

function encode({ name, matrix, precision }: Tensor): Uint8Array {
  const { inputs } = matrix;
  const values = readWhole(matrix);
  if (precision === "f32") {
    return new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
  }
  assert(inputs % BLOCK_VALUES === 0, `rows of ${name} are whole blocks, not ${inputs} values`);
  return quantizeBlocks(values);
}

/** Quantizes as llama.cpp's own tool does. */
function quantizeBlocks(values: Float32Array): Uint8Array {
  const blockCount = values.length / BLOCK_VALUES;
  const bytes = new Uint8Array(blockCount * BLOCK_BYTES);
  const view = new DataView(bytes.buffer);
  for (let block = 0; block < blockCount; block++) {
    const first = block * BLOCK_VALUES;
    let largest = 0;
    for (let index = first; index < first + BLOCK_VALUES; index++) {
      largest = Math.max(largest, Math.abs(values[index] ?? 0));
    }
    const scale = Math.fround(largest / 127);
    const factor = scale === 0 ? 0 : Math.fround(1 / scale);
    const place = block * BLOCK_BYTES;
    view.setUint16(place, toHalf(scale), true);
    for (let index = 0; index < BLOCK_VALUES; index++) {
      const value = Math.fround((values[first + index] ?? 0) * factor);
      // Halves are rounded away from zero, as C's roundf does.
      const rounded = Math.sign(value) * Math.floor(Math.abs(value) + 0.5);
      view.setInt8(place + 2 + index, rounded);
    }
  }
  return bytes;
}

function writeMetadata(head: ByteWriter, model: LoadedModel, precision: GgufPrecision): void {
  const { config } = model;
  const entries: (() => void)[] = [];
  const text = (key: string, value: string) =>
    entries.push(() => head.text(key).uint32(VALUE_TYPES.string).text(value));
  const integer = (key: string, value: number) =>
    entries.push(() => head.text(key).uint32(VALUE_TYPES.uint32).uint32(value));
  const float = (key: string, value: number) =>
    entries.push(() => head.text(key).uint32(VALUE_TYPES.float32).float32(value));
  text("general.architecture", "llama");
  text("general.name", "sluice-bench");
  integer("general.file_type", FILE_TYPES[precision]);
  integer("general.alignment", ALIGNMENT_BYTES);
  integer("llama.block_count", config.layerCount);
  integer("llama.context_length", config.contextTokens);
  integer("llama.embedding_length", config.hiddenSize);
  integer("llama.feed_forward_length", padded(config.mlpSize, BLOCK_VALUES));
  integer("llama.attention.head_count", config.headCount);
  integer("llama.attention.head_count_kv", config.kvHeadCount);
  integer("llama.attention.key_length", config.headDimensions);
  integer("llama.attention.value_length", config.headDimensions);
  integer("llama.rope.dimension_count", config.headDimensions);
  float("llama.rope.freq_base", config.ropeTheta);
  float("llama.attention.layer_norm_rms_epsilon", config.normEpsilon);
  integer("llama.vocab_size", config.vocabularyTokens);
  const vocabulary = vocabularyOf(config.vocabularyTokens);
  const array = (key: string, type: number, write: (token: VocabularyToken) => void) =>
    entries.push(() => {
      head.text(key).uint32(VALUE_TYPES.array).uint32(type).uint64(vocabulary.length);
      for (const token of vocabulary) write(token);
    });
  text("tokenizer.ggml.model", "llama");
  array("tokenizer.ggml.tokens", VALUE_TYPES.string, (token) => head.text(token.text));
  array("tokenizer.ggml.scores", VALUE_TYPES.float32, () => head.float32(0));
  array("tokenizer.ggml.token_type", VALUE_TYPES.int32, (token) => head.uint32(token.type));
  head.uint64(entries.length);
  for (const write of entries) write();
}

interface VocabularyToken {
  readonly text: string;
  readonly type: number;
}

/** The least that llama.cpp takes for a vocabulary: an unknown token, two controls, all bytes. */
function vocabularyOf(tokenCount: number): VocabularyToken[] {
  const special: VocabularyToken[] = [
    { text: "<unk>", type: TOKEN_TYPES.unknown },
    { text: "<s>", type: TOKEN_TYPES.control },
    { text: "</s>", type: TOKEN_TYPES.control },
    ...Array.from({ length: 256 }, (_, byte) => {
      const text = `<0x${byte.toString(16).toUpperCase().padStart(2, "0")}>`;
      return { text, type: TOKEN_TYPES.byte };
    }),
  ];
  return Array.from(
    { length: tokenCount },
    (_, token) => special[token] ?? { text: `token ${token}`, type: TOKEN_TYPES.normal },
  );
}

function padded(size: number, step: number): number {
  return Math.ceil(size / step) * step;
}

function writeAligned(file: number, bytes: Uint8Array): void {
  for (let written = 0; written < bytes.length;) {
    written += writeSync(file, bytes, written);
  }
  const missing = padded(bytes.length, ALIGNMENT_BYTES) - bytes.length;
  if (missing > 0) writeSync(file, new Uint8Array(missing));
}

/** Puts little-endian numbers and texts one behind the other. */
class ByteWriter {
  readonly #parts: Uint8Array[] = [];

  bytes(bytes: Uint8Array): this {
    this.#parts.push(bytes);
    return this;
  }

  uint32(value: number): this {
    return this.bytes(new Uint8Array(Uint32Array.of(value).buffer));
  }

  uint64(value: number): this {
    return this.bytes(new Uint8Array(BigUint64Array.of(BigInt(value)).buffer));
  }

  float32(value: number): this {
    return this.bytes(new Uint8Array(Float32Array.of(value).buffer));
  }

  text(value: string): this {
    const bytes = Buffer.from(value);
    return this.uint64(bytes.length).bytes(bytes);
  }

  toBytes(): Uint8Array {
    return Buffer.concat(this.#parts);
  }
}
