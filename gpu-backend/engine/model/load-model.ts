import { createHash } from "node:crypto";
import { join } from "node:path";
import * as z from "zod";
import { Checkpoint } from "./checkpoint.ts";
import { TokenIds } from "./config-json.ts";
import type { Matrix } from "./matrix.ts";
import { type ModelConfig, parseModelConfig } from "./model-config.ts";
import { ModelError } from "./model-error.ts";
import { parseJson } from "./parse-json.ts";
import { isThere, readModelText } from "./read-text.ts";
import {
  type ExpectedTensor,
  type LayerTensors,
  type MatrixRows,
  tensorManifest,
  type TensorManifest,
} from "./tensor-manifest.ts";

/** The weights of one transformer layer. Biases are absent where the model has none. */
export interface LayerWeights {
  readonly attentionNorm: Float32Array;
  readonly query: Matrix;
  readonly key: Matrix;
  readonly value: Matrix;
  /** Of queries, keys and values, in this order. */
  readonly qkvBias?: Float32Array | undefined;
  /** Norms of each head's query and key. */
  readonly headNorms?: { readonly query: Float32Array; readonly key: Float32Array } | undefined;
  readonly attentionOutput: Matrix;
  readonly attentionOutputBias?: Float32Array | undefined;
  readonly mlpNorm: Float32Array;
  readonly gate: Matrix;
  readonly up: Matrix;
  /** Of gate and up, in this order. */
  readonly gateAndUpBias?: Float32Array | undefined;
  readonly down: Matrix;
  readonly downBias?: Float32Array | undefined;
}

/** A checkpoint that is known to be one this engine computes; matrices are read when they are wanted. */
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
  /**
   * SHA-256 of configuration and weights, hex: equal revisions compute equal KV. Cheap once all
   * matrices were read; else it reads the rest.
   */
  revision(): string;
  /** Where the files are; absent for models that never were files. */
  readonly files?: ModelFiles;
  /** Closes the files; matrices cannot be read afterwards. */
  close(): void;
}

export interface ModelFiles {
  readonly directory: string;
  /** Changes with the configuration, the headers of the files, their sizes and times. */
  readonly identity: string;
}

const CONFIG_BYTES_MAX = 4 << 20;

/** Tensors of older checkpoints that hold nothing but what config.json says. */
const REDUNDANT = /(^|\.)rotary_emb\.inv_freq$/;

/**
 * Opens a directory in Hugging Face's layout: config.json, model.safetensors or its shards, and, if
 * present, generation_config.json. All that can be told from configuration and headers is checked before
 * any weight is read. Throws a `ModelError` that says which file is wrong and what to do.
 */
export async function loadModel(directory: string): Promise<LoadedModel> {
  const configPath = join(directory, "config.json");
  const configJson = readModelText(configPath, CONFIG_BYTES_MAX);
  const config = parseModelConfig(configJson, configPath);
  const eosTokenIds = generationEosTokenIds(directory) ?? config.eosTokenIds;
  const checkpoint = new Checkpoint(directory);
  try {
    const manifest = tensorManifest(config);
    const parameterCount = checkTensors(checkpoint, manifest, config);
    const digestOf = (text: string) =>
      createHash("sha256").update(configJson).update("\0").update(text).digest("hex");
    return {
      config,
      ...readWeights(checkpoint, manifest, config),
      eosTokenIds,
      parameterCount,
      revision: () => digestOf(checkpoint.digest()),
      files: { directory, identity: digestOf(checkpoint.identity) },
      close: () => checkpoint.close(),
    };
  } catch (error) {
    checkpoint.close();
    throw error;
  }
}

const GenerationConfig = z.object({ eos_token_id: TokenIds.optional() });

/** Chat models end a turn by a token that config.json may not list, hence this file's precedence. */
function generationEosTokenIds(directory: string): readonly number[] | undefined {
  const path = join(directory, "generation_config.json");
  if (!isThere(path)) return undefined;
  const json = parseJson(readModelText(path, CONFIG_BYTES_MAX), path);
  const parsed = GenerationConfig.safeParse(json);
  if (!parsed.success) throw new ModelError(`${path}: eos_token_id must be a token id or a list`);
  return parsed.data.eos_token_id;
}

/**
 * Finds every tensor there must be, and refuses any other: it is a part of the computation that this
 * engine does not know, say the bias of another architecture; leaving it out would garble the text.
 * Returns the elements of all of them.
 */
function checkTensors(
  checkpoint: Checkpoint,
  manifest: TensorManifest,
  { tiedEmbeddings }: ModelConfig,
): number {
  const expected = new Map(tensorsOf(manifest).map((tensor) => [tensor.name, tensor]));
  let parameterCount = 0;
  for (const { name, shape } of expected.values()) {
    const place = checkpoint.find(name, shape);
    checkpoint.include(place);
    parameterCount += shape.reduce((product, size) => product * size, 1);
  }
  for (const name of checkpoint.names) {
    if (expected.has(name) || REDUNDANT.test(name)) continue;
    if (name === "lm_head.weight" && tiedEmbeddings) continue;
    throw new ModelError(
      `${checkpoint.where} holds ${name}, which this engine does not compute with; serve this model with another engine`,
    );
  }
  return parameterCount;
}

function tensorsOf({ embedding, layers, finalNorm, head }: TensorManifest): ExpectedTensor[] {
  return [
    embedding,
    finalNorm,
    ...(head === undefined ? [] : [head]),
    ...layers.flatMap(({ headNorms, ...tensors }) => [
      ...Object.values(tensors).flat(),
      ...Object.values(headNorms ?? {}),
    ]),
  ];
}

function readWeights(
  checkpoint: Checkpoint,
  manifest: TensorManifest,
  config: ModelConfig,
): Pick<LoadedModel, "embedding" | "layers" | "finalNorm" | "head"> {
  const reader = new WeightReader(checkpoint, config);
  const embedding = reader.matrix(manifest.embedding);
  return {
    embedding,
    layers: manifest.layers.map((layer) => reader.layer(layer)),
    finalNorm: reader.norm(manifest.finalNorm),
    head: manifest.head === undefined ? embedding : reader.matrix(manifest.head),
  };
}

class WeightReader {
  readonly #checkpoint: Checkpoint;
  readonly #config: ModelConfig;

  constructor(checkpoint: Checkpoint, config: ModelConfig) {
    this.#checkpoint = checkpoint;
    this.#config = config;
  }

  matrix({ name, shape, first, count }: MatrixRows): Matrix {
    const [, inputs = 0] = shape;
    return this.#checkpoint.matrix(this.#checkpoint.find(name, shape), { first, count, inputs });
  }

  norm(tensor: ExpectedTensor): Float32Array {
    const { normOffset } = this.#config;
    return this.#vector(tensor).map((weight) => weight + normOffset);
  }

  layer(tensors: LayerTensors): LayerWeights {
    const { headNorms } = tensors;
    return {
      attentionNorm: this.norm(tensors.attentionNorm),
      query: this.matrix(tensors.query),
      key: this.matrix(tensors.key),
      value: this.matrix(tensors.value),
      qkvBias: this.#bias(tensors.qkvBias),
      headNorms: headNorms && {
        query: this.norm(headNorms.query),
        key: this.norm(headNorms.key),
      },
      attentionOutput: this.matrix(tensors.attentionOutput),
      attentionOutputBias: this.#bias(tensors.attentionOutputBias),
      mlpNorm: this.norm(tensors.mlpNorm),
      gate: this.matrix(tensors.gate),
      up: this.matrix(tensors.up),
      gateAndUpBias: this.#bias(tensors.gateAndUpBias),
      down: this.matrix(tensors.down),
      downBias: this.#bias(tensors.downBias),
    };
  }

  #bias(tensors: readonly ExpectedTensor[]): Float32Array | undefined {
    if (tensors.length === 0) return undefined;
    return Float32Array.from(tensors.flatMap((tensor) => [...this.#vector(tensor)]));
  }

  #vector({ name, shape }: ExpectedTensor): Float32Array {
    return this.#checkpoint.vector(this.#checkpoint.find(name, shape));
  }
}
