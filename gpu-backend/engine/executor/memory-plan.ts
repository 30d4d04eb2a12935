import type { LoadedModel } from "../model/load-model.ts";
import { ModelError } from "../model/model-error.ts";
import { type KvPrecision, kvTokenBytes, type ModelConfig } from "../model/model-config.ts";
import type { Precision } from "./load-stages.ts";
import { positionCountOf } from "./pack-batch.ts";
import { bufferColumns } from "./stage.ts";

/** What an engine is asked to hold. */
export interface MemoryNeeds {
  readonly precision: Precision;
  readonly kvPrecision: KvPrecision;
  readonly blockTokens: number;
  readonly blockCount: number;
  readonly batchTokensMax: number;
  /** What an embedding's value takes: 2 bytes where the checkpoint has it in bfloat16. */
  readonly embeddingValueBytes: 2 | 4;
  /** Whether the runtime keeps int8 matrices of its own beside ours; see `Int8Product`. */
  readonly runtimeCopies?: boolean;
}

/** What a model takes, told before anything is loaded. */
export interface MemoryPlan {
  readonly weightBytes: number;
  /** The parts of them that lie outside of the heap: embeddings, and what the runtime has a copy of. */
  readonly embeddingBytes: number;
  readonly runtimeCopyBytes: number;
  readonly kvPoolBytes: number;
  /** Tokens whose keys and values fit into the pool. */
  readonly kvPoolTokens: number;
  /** A step's buffers, the table of rotary positions, and what loading needs beside the weights. */
  readonly scratchBytes: number;
}

const FLOAT_BYTES = 4;
/** 32-bit addresses end here; what is kept free is for ONNX Runtime itself and for its heap's gaps. */
export const HEAP_BYTES_MAX = 4 * 2 ** 30 - 192 * 2 ** 20;
/** Most steps have a row of logits a sequence. */
const LOGIT_ROWS = 64;
/** Scores of 16 queries, and offsets; see `PagedAttention`. */
const ATTENTION_ROWS = 17;
/** ONNX Runtime has a graph's bytes, what it parsed of them, and what it made of that, at once. */
const GRAPH_COPIES = 2;

/** Works out what a model will take. */
export function planMemory(config: ModelConfig, needs: MemoryNeeds): MemoryPlan {
  const { blockTokens, blockCount } = needs;
  const embeddingBytes = config.vocabularyTokens * config.hiddenSize * needs.embeddingValueBytes;
  const runtimeCopyBytes =
    needs.runtimeCopies === true && needs.precision === "int8" ? matrixValuesOf(config) : 0;
  return {
    weightBytes: heapWeightBytesOf(config, needs.precision) + embeddingBytes + runtimeCopyBytes,
    embeddingBytes,
    runtimeCopyBytes,
    kvPoolBytes: kvTokenBytes(config, needs.kvPrecision) * blockTokens * blockCount,
    kvPoolTokens: blockTokens * blockCount,
    scratchBytes: scratchBytesOf(config, needs),
  };
}

export function embeddingValueBytesOf({ embedding }: Pick<LoadedModel, "embedding">): 2 | 4 {
  return embedding.isBfloat16 ? 2 : 4;
}

function heapWeightBytesIn(plan: MemoryPlan): number {
  return plan.weightBytes - plan.embeddingBytes - plan.runtimeCopyBytes;
}

/** What of a plan lies in the heap. */
export function heapBytesOf(plan: MemoryPlan): number {
  return heapWeightBytesIn(plan) + plan.kvPoolBytes + plan.scratchBytes;
}

/** What the heap has left for a pool. */
export function poolRoomBytesOf(plan: MemoryPlan): number {
  return HEAP_BYTES_MAX - heapBytesOf(plan) + plan.kvPoolBytes;
}

/** Fails early and in words where the heap would run out after a long start. */
export function requireMemory(plan: MemoryPlan, needs: MemoryNeeds): void {
  const { kvPoolBytes, scratchBytes } = plan;
  if (heapBytesOf(plan) <= HEAP_BYTES_MAX) return;
  throw new ModelError(
    `The model needs ${toMebibytes(heapWeightBytesIn(plan))} MiB for weights in ${needs.precision}, ` +
      `${toMebibytes(kvPoolBytes)} MiB for ${needs.blockCount} KV blocks and ` +
      `${toMebibytes(scratchBytes)} MiB for its steps, but the heap of WebAssembly holds ` +
      `${toMebibytes(HEAP_BYTES_MAX)} MiB; ${adviceFor(plan, needs)}`,
  );
}

/** The first thing that would be enough. */
function adviceFor(plan: MemoryPlan, needs: MemoryNeeds): string {
  const { kvPoolBytes } = plan;
  const blocksLeft = Math.floor((poolRoomBytesOf(plan) / kvPoolBytes) * needs.blockCount);
  if (blocksLeft >= 2) return `--kv-blocks ${blocksLeft} is the most there is room for`;
  if (needs.precision === "f32") return "--precision int8 takes a quarter of the weights";
  return "serve a smaller model, or this one with another engine";
}

function heapWeightBytesOf(config: ModelConfig, precision: Precision): number {
  const { hiddenSize, layerCount } = config;
  const matrices = matricesOf(config).reduce((sum, [count, outputs, inputs]) => {
    return sum + count * matrixBytes(outputs, inputs, precision);
  }, 0);
  const norms = (2 * layerCount + 1) * hiddenSize;
  return matrices + norms * FLOAT_BYTES;
}

function matrixValuesOf(config: ModelConfig): number {
  return matricesOf(config).reduce((sum, [count, outputs, inputs]) => {
    return sum + count * outputs * inputs;
  }, 0);
}

/** How many matrices there are of which outputs and inputs. */
function matricesOf(config: ModelConfig): readonly (readonly [number, number, number])[] {
  const { hiddenSize, layerCount, mlpSize, vocabularyTokens } = config;
  const querySize = config.headCount * config.headDimensions;
  const qkvSize = querySize + 2 * config.kvHeadCount * config.headDimensions;
  return [
    [layerCount, qkvSize, hiddenSize],
    [layerCount, hiddenSize, querySize],
    [layerCount, 2 * mlpSize, hiddenSize],
    [layerCount, hiddenSize, mlpSize],
    [1, vocabularyTokens, hiddenSize],
  ];
}

/** An output in int8 has a scale. */
function matrixBytes(outputs: number, inputs: number, precision: Precision): number {
  return precision === "f32" ? outputs * inputs * FLOAT_BYTES : outputs * (inputs + FLOAT_BYTES);
}

function scratchBytesOf(config: ModelConfig, needs: MemoryNeeds): number {
  const { contextTokens, headDimensions, hiddenSize, mlpSize } = config;
  const { logits, ...columns } = bufferColumns(config);
  const rowFloats = Object.values(columns).reduce((sum, count) => sum + count, 0);
  const logitFloats = Math.min(needs.batchTokensMax, LOGIT_ROWS) * logits;
  const positions = positionCountOf({ contextTokens, ...needs });
  const positionFloats = positions * (headDimensions + ATTENTION_ROWS);
  const floats = needs.batchTokensMax * rowFloats + logitFloats + positionFloats;
  const largest = Math.max(columns.qkv + columns.attended + 3 * mlpSize, logits) * hiddenSize;
  const loadingFloats = needs.precision === "f32" ? GRAPH_COPIES * largest : 0;
  return (floats + loadingFloats) * FLOAT_BYTES;
}

function toMebibytes(byteLength: number): number {
  return Math.ceil(byteLength / 2 ** 20);
}
