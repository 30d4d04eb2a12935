/* oxlint-disable no-underscore-dangle -- what node-llama-cpp calls the llama.cpp beneath its own loop */
import { existsSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { PACKAGE_ROOT } from "../../cli/wrangler.ts";
import type { Sampling } from "../../gpu-backend/engine/generate-request.ts";
import type { LoadedModel } from "../../gpu-backend/engine/model/load-model.ts";
import { assert } from "../../src/base/assert.ts";
import { type EngineSide, PROMPT_SEQUENCE, type SideLimits, type StepPart } from "./engine-side.ts";
import { type GgufPrecision, writeGguf } from "./gguf.ts";

/** The part of node-llama-cpp 3.21.1 that we use; its own loop of batches costs more than ours. */
interface NodeLlamaCpp {
  getLlama(options: object): Promise<Llama>;
}

interface Llama {
  readonly _bindings: { readonly AddonSampler: new (model: object) => AddonSampler };
  loadModel(options: object): Promise<LlamaModel>;
}

interface LlamaModel {
  readonly _model: object;
  createContext(options: object): Promise<LlamaContext>;
}

interface LlamaContext {
  readonly _ctx: AddonContext;
}

interface AddonSampler {
  applyConfig(settings: object): void;
}

interface AddonContext {
  initBatch(tokenCount: number): void;
  addToBatch(
    sequence: number,
    startPosition: number,
    tokens: Uint32Array,
    logitIndexes: Uint32Array,
  ): Uint32Array;
  decodeBatch(): Promise<void>;
  sampleToken(logitIndex: number, sampler: AddonSampler): Promise<number>;
  removeTokenCellsFromSequence(sequence: number, start: number, end: number): boolean;
}

export interface LlamaCppOptions {
  readonly precision: GgufPrecision;
  /** Absent: what node-llama-cpp takes by default, which is the faster one. */
  readonly flashAttention?: false;
}

const PACKAGE = join(PACKAGE_ROOT, "bench/peers/node_modules/node-llama-cpp");

/** Whether `npm install --prefix bench/peers` was run. */
export const hasLlamaCpp = existsSync(PACKAGE);

/**
 * llama.cpp with the very same weights, on one thread of the CPU. Whole prompts are computed in a
 * context of their own, as long as they are: one as long for every sequence would only cost memory.
 */
export async function openLlamaCpp(
  model: LoadedModel,
  { precision, flashAttention }: LlamaCppOptions,
  limits: SideLimits,
): Promise<EngineSide> {
  const folder = await mkdtemp(join(tmpdir(), "sluice-gguf-"));
  const modelPath = join(folder, "model.gguf");
  writeGguf(modelPath, model, precision);
  const llama = await startLlama();
  const loaded = await llama.loadModel({ modelPath, gpuLayers: 0, useMmap: false });
  const contextOf = async (sequences: number, contextSize: number, batchSize: number) => {
    const attention = flashAttention === undefined ? {} : { flashAttention };
    const options = { sequences, contextSize, batchSize, threads: 1, ...attention };
    return (await loaded.createContext(options))._ctx;
  };
  const { sequencesMax, sequenceTokensMax, promptTokensMax } = limits;
  const decoding = await contextOf(1 + sequencesMax, sequenceTokensMax, sequenceTokensMax);
  const prompting = await contextOf(1, promptTokensMax, promptTokensMax);
  const sampler = new llama._bindings.AddonSampler(loaded._model);
  let applied: Sampling | undefined;
  return {
    name: `llama.cpp ${precision}${flashAttention === false ? ", no flash attention" : ""}`,
    isInteger: precision === "q8_0",
    isDefault: flashAttention !== false,
    step: async (parts, sampling) => {
      if (applied !== sampling) sampler.applyConfig(samplerSettings(sampling));
      applied = sampling;
      const isPrompt = parts[0]?.sequence === PROMPT_SEQUENCE;
      return computeStep(isPrompt ? prompting : decoding, parts, sampler);
    },
    rewind: (sequence, position) => {
      const context = sequence === PROMPT_SEQUENCE ? prompting : decoding;
      context.removeTokenCellsFromSequence(sequence, position, -1);
    },
    // What llama.cpp holds goes with the process; its own way to let go of it never comes back.
    close: () => rm(folder, { recursive: true }),
  };
}

async function computeStep(
  context: AddonContext,
  parts: readonly StepPart[],
  sampler: AddonSampler,
): Promise<number[]> {
  context.initBatch(parts.reduce((sum, { tokens }) => sum + tokens.length, 0));
  const logitIndexes = parts.map(({ sequence, startPosition, tokens }) => {
    const last = Uint32Array.of(tokens.length - 1);
    return context.addToBatch(sequence, startPosition, Uint32Array.from(tokens), last)[0] ?? 0;
  });
  await context.decodeBatch();
  const sampled: number[] = [];
  for (const index of logitIndexes) sampled.push(await context.sampleToken(index, sampler));
  return sampled;
}

function samplerSettings({ temperature, topK, topP, minP, seed }: Sampling): object {
  return { temperature, topK, topP, minP, seed };
}

async function startLlama(): Promise<Llama> {
  const module: unknown = await import(pathToFileURL(join(PACKAGE, "dist/index.js")).href);
  assert(isNodeLlamaCpp(module), "node-llama-cpp is as it is in version 3.21.1");
  return module.getLlama({ gpu: false, build: "never", logLevel: "error", maxThreads: 1 });
}

function isNodeLlamaCpp(module: unknown): module is NodeLlamaCpp {
  return (
    typeof module === "object" &&
    module !== null &&
    "getLlama" in module &&
    typeof module.getLlama === "function"
  );
}
