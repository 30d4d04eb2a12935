import { assert } from "../../../src/base/assert.ts";
import { type LoadedModel, loadModel } from "../model/load-model.ts";
import type { KvPrecision } from "../model/model-config.ts";
import { ModelError } from "../model/model-error.ts";
import type { Executor } from "./executor.ts";
import { Int8Product } from "./int8-product.ts";
import { KeptWeights } from "./kept-weights.ts";
import { loadStages, type Precision } from "./load-stages.ts";
import { candidatesFor, openRuntime, ORT_VERSION, type RuntimeKind } from "./open-runtime.ts";
import {
  embeddingValueBytesOf,
  type MemoryPlan,
  planMemory,
  requireMemory,
} from "./memory-plan.ts";
import { RowOperations } from "./row-operations.ts";
import { RowVariants } from "./row-variants.ts";
import { refusalOf, type RuntimeChoice } from "./runtime-choice.ts";
import { type ExecutorParts, StagedExecutor } from "./staged-executor.ts";

/** What an executor is made of. */
export interface OnnxExecutorOptions {
  /** A directory in Hugging Face's layout, or a model that is open already and stays the caller's to close. */
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
  /** Is told what will be taken before anything is. */
  readonly onPlan?: ((plan: MemoryPlan) => void) | undefined;
  /** Int8 weights are kept beside the checkpoint where they take at least so much. */
  readonly keptBytesMin?: number;
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
  readonly memoryPlan: MemoryPlan;
  /** Sentences for the operator, say that the machine made us take a slower way. */
  readonly notes: readonly string[];
}

/** Quantizing fewer weights takes a moment; they are not worth a file. */
const KEPT_BYTES_MIN = 32 << 20;

/**
 * Loads a model and makes an executor in this very thread, on whatever runs it fastest of what `runtime`
 * leaves: `run` blocks it for the whole step. Throws a `ModelError` when the model cannot be served.
 */
export async function createOnnxExecutor(options: OnnxExecutorOptions): Promise<OnnxExecutor> {
  const { blockCount, batchTokensMax, precision } = options;
  assert(blockCount >= 1 && batchTokensMax >= 1, "an executor has blocks and takes tokens");
  const refusal = refusalOf(options.runtime ?? "wasm", precision);
  if (refusal !== undefined) throw new ModelError(refusal);
  if (typeof options.model !== "string") return createFrom(options.model, options);
  const model = await loadModel(options.model);
  try {
    return await createFrom(model, options);
  } finally {
    model.close();
  }
}

async function createFrom(model: LoadedModel, options: OnnxExecutorOptions): Promise<OnnxExecutor> {
  const { precision, blockTokens, blockCount, batchTokensMax } = options;
  const kvPrecision = options.kvPrecision ?? precision;
  const { config, eosTokenIds } = model;
  const needs = { ...options, kvPrecision, embeddingValueBytes: embeddingValueBytesOf(model) };
  const { runtime, kind, notes } = await openRuntime(
    candidatesFor(options.runtime ?? "wasm", precision).filter(
      (candidate) => candidate.kind === (options.runtimeKind ?? candidate.kind),
    ),
  );
  let kept: KeptWeights | undefined;
  try {
    const memoryPlan = planMemory(config, { ...needs, runtimeCopies: runtime.multipliesIntegers });
    options.onPlan?.(memoryPlan);
    requireMemory(memoryPlan, needs);
    kept = openKeptWeights(model, options);
    const product = new Int8Product(runtime);
    const rows = new RowOperations(runtime);
    const variants = new RowVariants(runtime);
    const engines = { runtime, product, rows, variants };
    const { stages, weightBytes } = await loadStages(model, precision, engines, kept?.quantize);
    const modelRevision = kept?.finish() ?? model.revision();
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
      revision: revisionOf(modelRevision, { precision, kvPrecision, kind }),
      eosTokenIds,
      memoryPlan,
      runtime: nameOf(kind),
      notes: [...config.notes, ...notes, ...(kept?.notes ?? [])],
    });
  } catch (error) {
    await runtime.close();
    throw error;
  } finally {
    kept?.close();
  }
}

/** Int8 weights of an earlier start, or what makes some for the next; undefined where it does not pay. */
function openKeptWeights(
  model: LoadedModel,
  { precision, keptBytesMin = KEPT_BYTES_MIN }: OnnxExecutorOptions,
): KeptWeights | undefined {
  if (precision === "f32" || model.files === undefined) return undefined;
  return model.parameterCount < keptBytesMin ? undefined : new KeptWeights(model, model.files);
}

/**
 * In int8 every runtime computes the same bits; f32 is added up otherwise by each. KV in f32 has no
 * name, since engines that knew no other gave it none.
 */
function revisionOf(
  modelRevision: string,
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
  const revision = `${modelRevision}/${precision}${kv}`;
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
