import { assert } from "../../../src/base/assert.ts";
import { type LoadedModel, loadModel } from "../model/load-model.ts";
import { type KvPrecision, kvTokenBytes } from "../model/model-config.ts";
import { ModelError } from "../model/model-error.ts";
import type { Executor } from "./executor.ts";
import { Int8Product } from "./int8-product.ts";
import { loadStages, type Precision } from "./load-stages.ts";
import { candidatesFor, openRuntime, ORT_VERSION, type RuntimeKind } from "./open-runtime.ts";
import { RowOperations } from "./row-operations.ts";
import { refusalOf, type RuntimeChoice } from "./runtime-choice.ts";
import { type ExecutorParts, StagedExecutor } from "./staged-executor.ts";

/** What an executor is made of. */
export interface OnnxExecutorOptions {
  /** A directory in Hugging Face's layout, or a model that is loaded already. */
  readonly model: string | LoadedModel;
  readonly precision: Precision;
  /** How keys and values are kept; absent: as `precision` says. */
  readonly kvPrecision?: KvPrecision | undefined;
  /** Tokens of a KV block; a multiple of 16. */
  readonly blockTokens: number;
  readonly blockCount: number;
  /** The largest number of tokens in one step; it sizes the buffers. */
  readonly batchTokensMax: number;
  /** What runs the model; absent: `wasm`. */
  readonly runtime?: RuntimeChoice;
  /** The only way to call ONNX Runtime that is tried; absent: all that `runtime` leaves. */
  readonly runtimeKind?: RuntimeKind;
  /** Is told the kind of each stage before it runs, for whoever measures them. */
  readonly onStage?: ExecutorParts["onStage"];
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

const WEIGHT_BYTES: Readonly<Record<Precision, number>> = { f32: 4, int8: 1 };
/** A wasm heap ends at 4 GiB; the rest is for a step's buffers and for copies made while loading. */
const HEAP_BYTES_MAX = 3.5 * 2 ** 30;

/**
 * Loads a model and makes an executor on ONNX Runtime for WebAssembly, in this very thread: `run`
 * blocks it for the whole step. Throws a `ModelError` when the model cannot be served.
 */
export async function createOnnxExecutor(options: OnnxExecutorOptions): Promise<OnnxExecutor> {
  const { precision, blockTokens, blockCount, batchTokensMax } = options;
  const kvPrecision = options.kvPrecision ?? precision;
  assert(blockCount >= 1 && batchTokensMax >= 1, "an executor has blocks and takes tokens");
  const refusal = refusalOf(options.runtime ?? "wasm", precision);
  if (refusal !== undefined) throw new ModelError(refusal);
  const model = typeof options.model === "string" ? await loadModel(options.model) : options.model;
  const { config, eosTokenIds } = model;
  checkMemory(model, { ...options, kvPrecision });
  const { runtime, kind, notes } = await openRuntime(
    candidatesFor(options.runtime ?? "wasm", precision).filter(
      (candidate) => candidate.kind === (options.runtimeKind ?? candidate.kind),
    ),
  );
  try {
    const product = new Int8Product(runtime);
    const rows = new RowOperations(runtime);
    const engines = { runtime, product, rows };
    const { stages, weightBytes } = await loadStages(model, precision, engines);
    const executor = new StagedExecutor({
      config,
      ...engines,
      stages,
      weightBytes,
      blockTokens,
      blockCount,
      kvPrecision,
      batchTokensMax,
      onStage: options.onStage,
    });
    return Object.assign(executor, {
      precision,
      revision: revisionOf(model, { precision, kvPrecision, kind }),
      eosTokenIds,
      runtime: nameOf(kind),
      notes,
    });
  } catch (error) {
    await runtime.close();
    throw error;
  }
}

/**
 * In int8 every runtime computes the same bits; f32 is added up otherwise by each. KV in f32 has no
 * name, since engines that knew no other gave it none.
 */
function revisionOf(
  model: LoadedModel,
  {
    precision,
    kvPrecision,
    kind,
  }: {
    readonly precision: Precision;
    readonly kvPrecision: KvPrecision;
    readonly kind: RuntimeKind;
  },
): string {
  const kv = kvPrecision === "f32" ? "" : `/kv-${kvPrecision}`;
  const revision = `${model.revision}/${precision}${kv}`;
  if (precision === "int8") return revision;
  if (kind === "webgpu") return `${revision}/webgpu`;
  return isNative(kind) ? `${revision}/native` : revision;
}

function nameOf(kind: RuntimeKind): string {
  if (isNative(kind)) return "onnxruntime-node (native)";
  if (kind === "webgpu") return "onnxruntime-node (WebGPU)";
  return kind === "own" ? "own kernels (wasm)" : `onnxruntime-web ${ORT_VERSION} (wasm, ${kind})`;
}

function isNative(kind: RuntimeKind): boolean {
  return kind === "native" || kind === "native-public";
}

/** Fails early and in words where the heap would run out after a long start. */
function checkMemory(
  model: LoadedModel,
  options: OnnxExecutorOptions & { readonly kvPrecision: KvPrecision },
): void {
  const { config } = model;
  // The embedding's rows stay f32; where it is the output matrix too, that is a copy of its own.
  const lookedUp = model.embedding.values.length;
  const multiplied = model.parameterCount - (config.tiedEmbeddings ? 0 : lookedUp);
  const weightBytes = lookedUp * WEIGHT_BYTES.f32 + multiplied * WEIGHT_BYTES[options.precision];
  const kvPoolBytes =
    kvTokenBytes(config, options.kvPrecision) * options.blockTokens * options.blockCount;
  if (weightBytes + kvPoolBytes < HEAP_BYTES_MAX) return;
  throw new ModelError(
    `The model needs ${toMebibytes(weightBytes)} MiB for weights and ${toMebibytes(kvPoolBytes)} MiB for ${options.blockCount} KV blocks, but a wasm heap holds ${toMebibytes(HEAP_BYTES_MAX)} MiB; take fewer blocks, int8, or another engine`,
  );
}

function toMebibytes(byteLength: number): number {
  return Math.ceil(byteLength / 2 ** 20);
}
