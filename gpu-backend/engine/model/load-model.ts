import { createHash } from "node:crypto";
import { open, readFile, stat, type FileHandle } from "node:fs/promises";
import { join } from "node:path";
import * as z from "zod";
import { messageOf } from "../message-of.ts";
import { type ModelConfig, parseModelConfig, TokenIds } from "./model-config.ts";
import { ModelError } from "./model-error.ts";
import { parseJson } from "./parse-json.ts";
import { SafetensorsFile } from "./safetensors.ts";

/** A matrix as the checkpoint stores it: `[outputs, inputs]`, row-major, so `y = W x`. */
export interface Matrix {
  readonly outputs: number;
  readonly inputs: number;
  readonly values: Float32Array;
}

/** The weights of one transformer layer. */
export interface LayerWeights {
  readonly attentionNorm: Float32Array;
  readonly query: Matrix;
  readonly key: Matrix;
  readonly value: Matrix;
  readonly attentionOutput: Matrix;
  readonly mlpNorm: Float32Array;
  readonly gate: Matrix;
  readonly up: Matrix;
  readonly down: Matrix;
}

/** A checkpoint in memory, widened to f32. */
export interface LoadedModel {
  readonly config: ModelConfig;
  /** `[vocabulary, hidden]`, one row a token. */
  readonly embedding: Matrix;
  readonly layers: readonly LayerWeights[];
  readonly finalNorm: Float32Array;
  /** `[vocabulary, hidden]`; the very embedding where the two are tied. */
  readonly head: Matrix;
  /** Tokens that end the output. */
  readonly eosTokenIds: readonly number[];
  /** Weights in all, those of tied matrices once. */
  readonly parameterCount: number;
  /** SHA-256 of configuration and weights, hex: equal revisions compute equal KV. */
  readonly revision: string;
}

const WEIGHTS_FILE = "model.safetensors";
const HASH_CHUNK_BYTES = 1 << 20;

/** Tensors of older checkpoints that hold nothing but what config.json says. */
const REDUNDANT = /(^|\.)rotary_emb\.inv_freq$/;

/**
 * Loads a directory in Hugging Face's layout: config.json, model.safetensors and, if present,
 * generation_config.json. Throws a `ModelError` that says which file is wrong and what to do.
 */
export async function loadModel(directory: string): Promise<LoadedModel> {
  const configPath = join(directory, "config.json");
  const configJson = await readText(configPath);
  const config = parseModelConfig(configJson, configPath);
  const eosTokenIds = (await generationEosTokenIds(directory)) ?? config.eosTokenIds;
  const path = join(directory, WEIGHTS_FILE);
  const file = await openWeights(path);
  try {
    const tensors = new TensorReader(await SafetensorsFile.open(file, path));
    const weights = await readWeights(tensors, config);
    tensors.refuseUnread(path, config.tiedEmbeddings);
    const revision = await hash(configJson, file);
    const { parameterCount } = tensors;
    return { config, ...weights, eosTokenIds, parameterCount, revision };
  } finally {
    await file.close();
  }
}

async function readText(path: string): Promise<string> {
  try {
    return await readFile(path, "utf8");
  } catch (error) {
    throw unreadable(path, error);
  }
}

function unreadable(path: string, error: unknown): ModelError {
  const reason = messageOf(error);
  return new ModelError(
    `Cannot read ${path}: ${reason}; a model directory holds config.json and ${WEIGHTS_FILE}`,
  );
}

const GenerationConfig = z.object({ eos_token_id: TokenIds.optional() });

/** Chat models end a turn by a token that config.json may not list, hence this file's precedence. */
async function generationEosTokenIds(directory: string): Promise<readonly number[] | undefined> {
  const path = join(directory, "generation_config.json");
  if (!(await exists(path))) return undefined;
  const parsed = GenerationConfig.safeParse(parseJson(await readText(path), path));
  if (!parsed.success) throw new ModelError(`${path}: eos_token_id must be a token id or a list`);
  return parsed.data.eos_token_id;
}

async function exists(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    () => false,
  );
}

async function openWeights(path: string): Promise<FileHandle> {
  try {
    return await open(path, "r");
  } catch (error) {
    if (await exists(`${path}.index.json`)) {
      throw new ModelError(
        `${path}.index.json says that the weights are in several files; save them as one ${WEIGHTS_FILE}`,
      );
    }
    throw unreadable(path, error);
  }
}

/** Reads tensors and remembers which, so that a tensor nobody asked for is noticed. */
class TensorReader {
  readonly #file: SafetensorsFile;
  readonly #read = new Set<string>();
  #parameterCount = 0;

  constructor(file: SafetensorsFile) {
    this.#file = file;
  }

  /** Elements of all tensors read so far. */
  get parameterCount(): number {
    return this.#parameterCount;
  }

  async vector(name: string, size: number): Promise<Float32Array> {
    return this.#tensor(name, [size]);
  }

  async matrix(name: string, outputs: number, inputs: number): Promise<Matrix> {
    return { outputs, inputs, values: await this.#tensor(name, [outputs, inputs]) };
  }

  /**
   * A tensor that was not read is a part of the computation that this engine does not know, say
   * the bias of another architecture; leaving it out would garble the text.
   */
  refuseUnread(path: string, tiedEmbeddings: boolean): void {
    for (const name of this.#file.names) {
      if (this.#read.has(name) || REDUNDANT.test(name)) continue;
      if (name === "lm_head.weight" && tiedEmbeddings) continue;
      throw new ModelError(
        `${path} holds ${name}, which this engine does not compute with; serve this model with another engine`,
      );
    }
  }

  async #tensor(name: string, shape: readonly number[]): Promise<Float32Array> {
    const values = await this.#file.read(name, shape);
    this.#read.add(name);
    this.#parameterCount += values.length;
    return values;
  }
}

async function readWeights(
  tensors: TensorReader,
  config: ModelConfig,
): Promise<Pick<LoadedModel, "embedding" | "layers" | "finalNorm" | "head">> {
  const { vocabularyTokens, hiddenSize } = config;
  const embedding = await tensors.matrix("model.embed_tokens.weight", vocabularyTokens, hiddenSize);
  const layers: LayerWeights[] = [];
  for (let index = 0; index < config.layerCount; index++) {
    layers.push(await readLayer(tensors, config, `model.layers.${index}`));
  }
  const finalNorm = await tensors.vector("model.norm.weight", hiddenSize);
  const head = config.tiedEmbeddings
    ? embedding
    : await tensors.matrix("lm_head.weight", vocabularyTokens, hiddenSize);
  return { embedding, layers, finalNorm, head };
}

async function readLayer(
  tensors: TensorReader,
  config: ModelConfig,
  prefix: string,
): Promise<LayerWeights> {
  const { hiddenSize, mlpSize } = config;
  const querySize = config.headCount * config.headDimensions;
  const kvSize = config.kvHeadCount * config.headDimensions;
  const matrix = (name: string, outputs: number, inputs: number) =>
    tensors.matrix(`${prefix}.${name}.weight`, outputs, inputs);
  return {
    attentionNorm: await tensors.vector(`${prefix}.input_layernorm.weight`, hiddenSize),
    query: await matrix("self_attn.q_proj", querySize, hiddenSize),
    key: await matrix("self_attn.k_proj", kvSize, hiddenSize),
    value: await matrix("self_attn.v_proj", kvSize, hiddenSize),
    attentionOutput: await matrix("self_attn.o_proj", hiddenSize, querySize),
    mlpNorm: await tensors.vector(`${prefix}.post_attention_layernorm.weight`, hiddenSize),
    gate: await matrix("mlp.gate_proj", mlpSize, hiddenSize),
    up: await matrix("mlp.up_proj", mlpSize, hiddenSize),
    down: await matrix("mlp.down_proj", hiddenSize, mlpSize),
  };
}

async function hash(configJson: string, file: FileHandle): Promise<string> {
  const digest = createHash("sha256").update(configJson).update("\0");
  const chunk = Buffer.alloc(HASH_CHUNK_BYTES);
  for (let position = 0; ;) {
    const { bytesRead } = await file.read(chunk, 0, chunk.length, position);
    if (bytesRead === 0) return digest.digest("hex");
    digest.update(chunk.subarray(0, bytesRead));
    position += bytesRead;
  }
}
