import { DraftModel } from "../../gpu-backend/draft-model.ts";
import type { Batch } from "../../gpu-backend/engine/batch.ts";
import { workOf } from "../../gpu-backend/engine/batch-work.ts";
import { Engine } from "../../gpu-backend/engine/engine.ts";
import type { EngineOptions } from "../../gpu-backend/engine/engine-options.ts";
import {
  createOnnxExecutor,
  type OnnxExecutor,
  type OnnxExecutorOptions,
} from "../../gpu-backend/engine/executor/onnx-executor.ts";
import { createSamplingKernel } from "../../gpu-backend/engine/executor/sampling-kernel.ts";
import {
  type GenerateEvent,
  type GenerateRequest,
  GREEDY_SAMPLING,
} from "../../gpu-backend/engine/generate-request.ts";
import { sampleBatch } from "../../gpu-backend/engine/sample-batch.ts";
import { Sampler } from "../../gpu-backend/engine/sampler.ts";
import { StepMeter, type StepSpeed } from "../../gpu-backend/engine/step-meter.ts";
import { hashBlock } from "../../gpu-backend/hash-block.ts";
import { warmUp } from "../../gpu-backend/warm-up.ts";
import type { StepWork } from "../../src/step-cost/step-model.ts";

export const BLOCK_TOKENS = 16;
/** Of a step, unless it is said otherwise. */
const BATCH_TOKENS_MAX = 256;

/** One model on one runtime, measured by the time that the processor gives this process. */
export interface Machine {
  readonly name: string;
  readonly executor: OnnxExecutor;
  readonly sampler: Sampler;
  readonly speed: StepSpeed;
}

/** What one step was and took. */
export interface StepRecord {
  readonly work: StepWork;
  readonly cpuMs: number;
  /** When it ended, in time of this run. */
  readonly endedAtMs: number;
  readonly events: readonly GenerateEvent[];
}

/** CPU time of this process, which nobody else on the machine adds to. */
export function cpuNowMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}

export async function openMachine(
  name: string,
  options: Omit<OnnxExecutorOptions, "blockTokens" | "batchTokensMax"> & {
    batchTokensMax?: number;
  },
): Promise<Machine> {
  const executor = await createOnnxExecutor({
    blockTokens: BLOCK_TOKENS,
    batchTokensMax: BATCH_TOKENS_MAX,
    ...options,
  });
  const { vocabularyTokens } = executor;
  const sampler = new Sampler(vocabularyTokens, createSamplingKernel(vocabularyTokens));
  return { name, executor, sampler, speed: await warmUp(executor, cpuNowMs) };
}

export function aRequest(overrides: Partial<GenerateRequest>): GenerateRequest {
  return {
    id: "request",
    promptTokens: [1],
    outputTokensMax: 1,
    outputTokensMin: 0,
    sampling: GREEDY_SAMPLING,
    tenant: "bench",
    priority: 0,
    stopTokenIds: [],
    cacheSalt: "bench",
    ...overrides,
  };
}

/**
 * The real engine, executor and sampler, step by step as the step loop has them, on a clock of CPU time:
 * what is idle takes none.
 */
export class BenchEngine {
  readonly engine: Engine;
  readonly meter: StepMeter;
  readonly #machine: Machine;
  readonly #draftModel: DraftModel | undefined;
  #nowMs = 0;

  constructor(
    machine: Machine,
    options: Partial<EngineOptions> & {
      /** Goes on learning where another run has stopped. */
      readonly meter?: StepMeter;
      readonly draftModel?: DraftModel;
      /** False: the engine decides nothing by time. */
      readonly isForecast?: boolean;
    } = {},
  ) {
    const { meter = new StepMeter(machine.speed), draftModel, isForecast, ...others } = options;
    const { executor } = machine;
    this.#machine = machine;
    this.#draftModel = draftModel;
    this.meter = meter;
    this.engine = new Engine({
      blockCount: executor.blockCount,
      blockTokens: executor.blockTokens,
      contextTokens: executor.contextTokens,
      batchTokensMax: BATCH_TOKENS_MAX,
      sequencesMax: 16,
      queueMax: 1000,
      prefixCache: false,
      modelRevision: executor.revision,
      hashBlock,
      ...(isForecast !== false && { forecast: meter.model }),
      ...others,
    });
  }

  get nowMs(): number {
    return this.#nowMs;
  }

  submit(request: GenerateRequest): void {
    const [refused] = this.engine.submit(request, this.#nowMs);
    if (refused !== undefined) throw new Error(`A request was refused: ${JSON.stringify(refused)}`);
  }

  /** Runs one step; `undefined` where there is nothing to do. */
  async step(): Promise<StepRecord | undefined> {
    const startedAtMs = cpuNowMs();
    await this.#draft();
    const { batch } = this.engine.plan(this.#nowMs, cpuNowMs() - startedAtMs);
    if (batch === undefined) return undefined;
    const events = await this.#execute(batch);
    const cpuMs = cpuNowMs() - startedAtMs;
    this.#nowMs += cpuMs;
    return { work: workOf(batch), cpuMs, endedAtMs: this.#nowMs, events };
  }

  /** Runs until nothing is left to do. */
  async runToEnd(): Promise<StepRecord[]> {
    const steps: StepRecord[] = [];
    for (;;) {
      const step = await this.step();
      if (step === undefined) return steps;
      steps.push(step);
    }
  }

  async #execute(batch: Batch): Promise<readonly GenerateEvent[]> {
    const { executor, sampler } = this.#machine;
    const startedAtMs = cpuNowMs();
    const results = sampleBatch(sampler, batch, await executor.run(batch));
    const endedAtMs = cpuNowMs();
    this.meter.record(batch, endedAtMs - startedAtMs, endedAtMs);
    const events = this.engine.commit(batch, results);
    for (const { kind, id } of events) if (kind === "finished") this.#draftModel?.forget(id);
    return events;
  }

  async #draft(): Promise<void> {
    if (this.#draftModel === undefined) return;
    const wishes = this.engine.draftWishes(this.#draftModel.meter.model);
    if (wishes.length === 0) return;
    for (const [id, tokenIds] of await this.#draftModel.draft(wishes)) {
      this.engine.offerDrafts(id, tokenIds);
    }
  }
}

/** The small model beside a machine's, on the same runtime. */
export async function openDraftModel(
  options: Omit<OnnxExecutorOptions, "blockTokens" | "batchTokensMax">,
): Promise<DraftModel> {
  const { executor, sampler, speed } = await openMachine("draft", options);
  return new DraftModel({ executor, sampler, speed, nowMs: cpuNowMs });
}

export function tokensIn(steps: readonly StepRecord[]): number {
  return steps.flatMap(({ events }) => events).filter(({ kind }) => kind === "token").length;
}

export function cpuMsOf(steps: readonly StepRecord[]): number {
  return steps.reduce((sum, { cpuMs }) => sum + cpuMs, 0);
}
