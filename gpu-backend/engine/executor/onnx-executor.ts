import { assert } from "../../../src/base/assert.ts";
import { type LoadedModel, loadModel } from "../model/load-model.ts";
import { ModelError } from "../model/model-error.ts";
import { exactWeightMax, int8MultiplyOn, WEIGHT_MAX } from "./check-int8.ts";
import type { Executor } from "./executor.ts";
import { buildSegment, segmentCountOf, type WeightFormat } from "./graph.ts";
import { openRuntime, ORT_VERSION, RUNTIME_CANDIDATES, type RuntimeKind } from "./open-runtime.ts";
import type { Segment, SegmentRuntime } from "./segment-runtime.ts";
import { SegmentedExecutor } from "./segmented-executor.ts";

/** How the large matrices are stored and multiplied; fixed when the model is loaded. */
export type Precision = WeightFormat["kind"];

/** What an executor is made of. */
export interface OnnxExecutorOptions {
  /** A directory in Hugging Face's layout, or a model that is loaded already. */
  readonly model: string | LoadedModel;
  readonly precision: Precision;
  /** Tokens of a KV block; a multiple of 16. */
  readonly blockTokens: number;
  readonly blockCount: number;
  /** The largest number of tokens in one step; it sizes the buffers. */
  readonly batchTokensMax: number;
  /** How to call ONNX Runtime; absent: the fastest way that works. */
  readonly runtime?: RuntimeKind;
}

/** An executor, and what there is to say about how it came up. */
export interface OnnxExecutor extends Executor {
  readonly precision: Precision;
  /** Names all that computed KV depends on: weights, configuration and precision. */
  readonly revision: string;
  /** Tokens that end the output, as the model's files name them. */
  readonly eosTokenIds: readonly number[];
  /** Name and version of what runs the model. */
  readonly runtime: string;
  /** Sentences for the operator, say that the machine made us take a slower way. */
  readonly notes: readonly string[];
}

const FLOAT_BYTES = 4;
/** A wasm heap ends at 4 GiB; the rest is for a step's buffers and for copies made while loading. */
const HEAP_BYTES_MAX = 3.5 * 2 ** 30;

/**
 * Loads a model and makes an executor on ONNX Runtime for WebAssembly, in this very thread: `run`
 * blocks it for the whole step. Throws a `ModelError` when the model cannot be served.
 */
export async function createOnnxExecutor(options: OnnxExecutorOptions): Promise<OnnxExecutor> {
  const { precision, blockTokens, blockCount, batchTokensMax } = options;
  assert(blockCount >= 1 && batchTokensMax >= 1, "an executor has blocks and takes tokens");
  const model = typeof options.model === "string" ? await loadModel(options.model) : options.model;
  const { config, eosTokenIds } = model;
  checkMemory(model, options);
  const { runtime, kind, notes } = await openRuntime(
    RUNTIME_CANDIDATES.filter(
      (candidate) => candidate.kind === (options.runtime ?? candidate.kind),
    ),
  );
  try {
    const format = await chooseFormat(precision, runtime);
    const { segments, weightBytes } = await loadSegments(model, runtime, format);
    const executor = new SegmentedExecutor({
      config,
      runtime,
      segments,
      weightBytes,
      blockTokens,
      blockCount,
      batchTokensMax,
    });
    return Object.assign(executor, {
      precision,
      revision: `${model.revision}/${Object.values(format).join("-")}`,
      eosTokenIds,
      runtime: `onnxruntime-web ${ORT_VERSION} (wasm, ${kind})`,
      notes: [...notes, ...formatNotes(format)],
    });
  } catch (error) {
    await runtime.close();
    throw error;
  }
}

/** Limits int8 weights to what the machine multiplies exactly. */
async function chooseFormat(precision: Precision, runtime: SegmentRuntime): Promise<WeightFormat> {
  if (precision === "f32") return { kind: precision };
  const weightMax = await exactWeightMax(int8MultiplyOn(runtime));
  if (weightMax === undefined) {
    throw new Error("int8 products are not exact on this machine; choose f32");
  }
  return { kind: precision, weightMax };
}

function formatNotes(format: WeightFormat): string[] {
  if (format.kind === "f32" || format.weightMax === WEIGHT_MAX) return [];
  return [`int8 weights stay within ±${format.weightMax}, since larger ones overflow here`];
}

async function loadSegments(
  model: LoadedModel,
  runtime: SegmentRuntime,
  format: WeightFormat,
): Promise<{ segments: Segment[]; weightBytes: number }> {
  const segments: Segment[] = [];
  let weightBytes = 0;
  for (let index = 0; index < segmentCountOf(model); index++) {
    const graph = buildSegment(model, index, format);
    weightBytes += graph.model.byteLength;
    segments.push(await runtime.load(graph));
  }
  return { segments, weightBytes };
}

/** Fails early and in words where the heap would run out after a long start. */
function checkMemory(model: LoadedModel, options: OnnxExecutorOptions): void {
  const { layerCount, kvHeadCount, headDimensions } = model.config;
  const weightBytes = model.parameterCount * (options.precision === "int8" ? 1 : FLOAT_BYTES);
  const kvPoolBytes =
    2 *
    layerCount *
    kvHeadCount *
    headDimensions *
    FLOAT_BYTES *
    options.blockTokens *
    options.blockCount;
  if (weightBytes + kvPoolBytes < HEAP_BYTES_MAX) return;
  throw new ModelError(
    `The model needs ${toMebibytes(weightBytes)} MiB for weights and ${toMebibytes(kvPoolBytes)} MiB for ${options.blockCount} KV blocks, but a wasm heap holds ${toMebibytes(HEAP_BYTES_MAX)} MiB; take fewer blocks, int8, or another engine`,
  );
}

function toMebibytes(byteLength: number): number {
  return Math.ceil(byteLength / 2 ** 20);
}
