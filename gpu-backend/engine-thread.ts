import { type MessagePort, parentPort, workerData } from "node:worker_threads";
import { assert } from "../src/base/assert.ts";
import { monotonicNowMs } from "./clock.ts";
import { ConstraintIntake } from "./constraint-intake.ts";
import { Engine } from "./engine/engine.ts";
import { createOnnxExecutor, type OnnxExecutor } from "./engine/executor/onnx-executor.ts";
import {
  embeddingValueBytesOf,
  planMemory,
  poolRoomBytesOf,
} from "./engine/executor/memory-plan.ts";
import { messageOf } from "./engine/message-of.ts";
import { type LoadedModel, loadModel } from "./engine/model/load-model.ts";
import type { KvPrecision } from "./engine/model/model-config.ts";
import { StepMeter } from "./engine/step-meter.ts";
import { ConstraintCompiler } from "./engine/structured/constraint-compiler.ts";
import { shareVocabulary } from "./engine/structured/vocabulary.ts";
import { type TokenBytes, tokenBytesOf } from "./engine/tokenizer/token-bytes.ts";
import { readTokenizerFile } from "./engine/tokenizer/tokenizer-files.ts";
import { urgencyOf } from "./engine/urgency.ts";
import { hashBlock } from "./hash-block.ts";
import { defaultBlockCount } from "./model-size.ts";
import { StepLoop } from "./step-loop.ts";
import { StepWatch } from "./step-watch.ts";
import type {
  EngineCommand,
  EngineFacts,
  EngineMessage,
  EngineSnapshot,
  EngineThreadInput,
  EngineThreadOptions,
} from "./thread-messages.ts";
import { warmUp } from "./warm-up.ts";

const input: EngineThreadInput = workerData;
const port = ownPort();

// Running a model blocks its thread for the whole step, so nothing but that happens on this one:
// HTTP, text and the link to the pool stay on the main thread.
try {
  await serve(input);
} catch (error) {
  post({ kind: "broken", message: messageOf(error) });
}

/** Loads the model, says so, then serves until the runtime breaks or the thread is ended. */
async function serve({ options, watchMemory }: EngineThreadInput): Promise<never> {
  const loaded = await load(options);
  const { executor } = loaded;
  const meter = new StepMeter(await warmUp(executor, monotonicNowMs));
  const engine = new Engine({
    blockCount: executor.blockCount,
    blockTokens: executor.blockTokens,
    contextTokens: executor.contextTokens,
    batchTokensMax: executor.batchTokensMax,
    sequencesMax: options.sequencesMax,
    queueMax: options.queueMax,
    prefixCache: options.prefixCache,
    compareUrgency: urgencyOf(options.scheduling.policy, {
      forecast: meter.model,
      batchTokensMax: executor.batchTokensMax,
    }),
    forecast: meter.model,
    chunkedPrefill: options.scheduling.chunkedPrefill,
    keepsTbt: options.scheduling.keepsTbt,
    kvAdmission: options.scheduling.kvAdmission,
    shares: { shareCount: options.scheduling.kvShares, isolation: options.scheduling.isolation },
    modelRevision: executor.revision,
    hashBlock,
  });
  let submissions = 0;
  const snapshot = () => {
    const { stepRetries } = loop;
    const { openingRequests } = intake;
    return snapshotOf(engine, meter, { submissions, stepRetries, openingRequests });
  };
  const loop: StepLoop = new StepLoop({
    engine,
    executor,
    meter,
    watch: new StepWatch(watchMemory),
    nowMs: monotonicNowMs,
    publish: (events, atMs) =>
      post({ kind: "events", events, atMs, snapshot: snapshot(), ...prefixNews(engine) }),
  });
  const compiler = compilerFor(executor, loaded.tokenBytes);
  const intake: ConstraintIntake = new ConstraintIntake(loop, compiler, executor.eosTokenIds);
  port.on("message", (command: EngineCommand) => {
    switch (command.kind) {
      case "submit":
        submissions += 1;
        intake.submit(command.request);
        break;
      case "cancel":
        intake.cancel(command.id);
        break;
      case "drain":
        loop.drain();
        break;
    }
  });
  const facts = factsOf(engine, loaded, options);
  post({ kind: "loaded", facts, snapshot: snapshot() });
  return loop.run();
}

async function load(
  options: EngineThreadOptions,
): Promise<{ executor: OnnxExecutor; parameterCount: number; tokenBytes: TokenBytes }> {
  const { modelDirectory, precision, runtime, blockTokens, batchTokensMax } = options;
  const kvPrecision = options.kvPrecision ?? precision;
  // First, since it is refused the soonest.
  const tokenBytes = tokenBytesOf(await readTokenizerFile(modelDirectory));
  const model = await loadModel(modelDirectory);
  try {
    const blockCount = options.blockCount ?? unaskedBlockCount(model, { ...options, kvPrecision });
    const executor = await createOnnxExecutor({
      model,
      precision,
      kvPrecision,
      runtime,
      blockTokens,
      blockCount,
      batchTokensMax,
      onPlan: (plan) => post({ kind: "planned", plan }),
    });
    return { executor, parameterCount: model.parameterCount, tokenBytes };
  } finally {
    model.close();
  }
}

/** What is left of the heap beside weights and buffers bounds the pool that nobody asked for. */
function unaskedBlockCount(
  model: LoadedModel,
  options: EngineThreadOptions & { readonly kvPrecision: KvPrecision },
): number {
  const { blockTokens, kvPrecision } = options;
  const blockCount = Math.ceil(model.config.contextTokens / blockTokens);
  const embeddingValueBytes = embeddingValueBytesOf(model);
  const plan = planMemory(model.config, { ...options, blockCount, embeddingValueBytes });
  const roomBytes = poolRoomBytesOf(plan);
  const { kvShares: shareCount } = options.scheduling;
  return defaultBlockCount(model.config, { blockTokens, shareCount, roomBytes, kvPrecision });
}

function compilerFor(executor: OnnxExecutor, tokenBytes: TokenBytes): ConstraintCompiler {
  const { vocabularyTokens: logitCount, eosTokenIds: endTokenIds } = executor;
  return new ConstraintCompiler({
    vocabulary: shareVocabulary(tokenBytes, { logitCount, endTokenIds }),
  });
}

function factsOf(
  engine: Engine,
  {
    executor,
    parameterCount,
  }: { readonly executor: OnnxExecutor; readonly parameterCount: number },
  options: EngineThreadOptions,
): EngineFacts {
  return {
    modelRevision: executor.revision,
    parameterCount,
    vocabularyTokens: executor.vocabularyTokens,
    contextTokens: engine.sequenceTokensMax,
    blockTokens: executor.blockTokens,
    blockCount: executor.blockCount,
    weightBytes: executor.memory.weightBytes,
    kvPoolBytes: executor.memory.kvPoolBytes,
    scratchBytes: executor.memoryPlan.scratchBytes,
    runtime: executor.runtime,
    endTokenIds: executor.eosTokenIds,
    notes: notesOf(engine, executor, options),
  };
}

function notesOf(
  engine: Engine,
  executor: OnnxExecutor,
  { blockCount }: EngineThreadOptions,
): readonly string[] {
  const poolTokens = executor.blockCount * executor.blockTokens;
  // Who asks for a pool knows what it holds.
  if (blockCount !== undefined || poolTokens >= executor.contextTokens) return executor.notes;
  const note =
    `The context is ${engine.sequenceTokensMax} tokens of the model's ${executor.contextTokens}, ` +
    `since the KV pool holds ${poolTokens}; --kv-blocks makes it larger`;
  return [...executor.notes, note];
}

/** What has changed of the gateway's names for what is cached, if anything has. */
function prefixNews(engine: Engine) {
  const prefixes = engine.takePrefixChanges();
  return prefixes !== undefined && { prefixes };
}

function snapshotOf(
  engine: Engine,
  meter: StepMeter,
  counted: {
    readonly submissions: number;
    readonly stepRetries: number;
    readonly openingRequests: number;
  },
): EngineSnapshot {
  const { counters } = engine;
  const { openingRequests, ...others } = counted;
  const engineLoad = engine.load();
  return {
    ...others,
    ...engineLoad,
    queuedRequests: engineLoad.queuedRequests + openingRequests,
    ...meter.measurements,
    promptTokens: counters.promptTokens,
    outputTokens: counters.generatedTokens,
    prefixQueriedTokens: counters.prefix.queriedTokens,
    prefixHitTokens: counters.prefix.hitTokens,
    preemptions: counters.preemptions,
  };
}

function ownPort(): MessagePort {
  assert(parentPort !== null, "this is the program of a thread");
  return parentPort;
}

function post(message: EngineMessage): void {
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread has no origin
  port.postMessage(message);
}
