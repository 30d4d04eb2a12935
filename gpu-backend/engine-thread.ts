import { type MessagePort, parentPort, workerData } from "node:worker_threads";
import { assert } from "../src/base/assert.ts";
import { monotonicNowMs } from "./clock.ts";
import { ConstraintIntake } from "./constraint-intake.ts";
import { Engine } from "./engine/engine.ts";
import { createOnnxExecutor, type OnnxExecutor } from "./engine/executor/onnx-executor.ts";
import { messageOf } from "./engine/message-of.ts";
import { loadModel } from "./engine/model/load-model.ts";
import { StepMeter } from "./engine/step-meter.ts";
import { ConstraintCompiler } from "./engine/structured/constraint-compiler.ts";
import { shareVocabulary } from "./engine/structured/vocabulary.ts";
import { byteLevelTokenBytes, type TokenBytes } from "./engine/tokenizer/token-bytes.ts";
import { readTokenizerFile } from "./engine/tokenizer/tokenizer-files.ts";
import { urgencyOf } from "./engine/urgency.ts";
import { hashBlock } from "./hash-block.ts";
import { countParameters, defaultBlockCount } from "./model-size.ts";
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
  const { executor, parameterCount, tokenBytes } = await load(options);
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
  const intake: ConstraintIntake = new ConstraintIntake(
    loop,
    compilerFor(executor, tokenBytes),
    executor.eosTokenIds,
  );
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
  post({ kind: "loaded", facts: factsOf(engine, executor, parameterCount), snapshot: snapshot() });
  return loop.run();
}

async function load(
  options: EngineThreadOptions,
): Promise<{ executor: OnnxExecutor; parameterCount: number; tokenBytes: TokenBytes }> {
  const model = await loadModel(options.modelDirectory);
  const kvPrecision = options.kvPrecision ?? options.precision;
  const shareCount = options.scheduling.kvShares;
  const pool = { blockTokens: options.blockTokens, shareCount, kvPrecision };
  const executor = await createOnnxExecutor({
    model,
    precision: options.precision,
    kvPrecision,
    runtime: options.runtime,
    blockTokens: options.blockTokens,
    blockCount: options.blockCount ?? defaultBlockCount(model.config, pool),
    batchTokensMax: options.batchTokensMax,
  });
  const { modelDirectory } = options;
  const tokenBytes = byteLevelTokenBytes(await readTokenizerFile(modelDirectory));
  return { executor, parameterCount: countParameters(model), tokenBytes };
}

function compilerFor(executor: OnnxExecutor, tokenBytes: TokenBytes): ConstraintCompiler {
  const { vocabularyTokens: logitCount, eosTokenIds: endTokenIds } = executor;
  return new ConstraintCompiler({
    vocabulary: shareVocabulary(tokenBytes, { logitCount, endTokenIds }),
  });
}

function factsOf(engine: Engine, executor: OnnxExecutor, parameterCount: number): EngineFacts {
  return {
    modelRevision: executor.revision,
    parameterCount,
    vocabularyTokens: executor.vocabularyTokens,
    contextTokens: engine.sequenceTokensMax,
    blockTokens: executor.blockTokens,
    blockCount: executor.blockCount,
    weightBytes: executor.memory.weightBytes,
    kvPoolBytes: executor.memory.kvPoolBytes,
    runtime: executor.runtime,
    endTokenIds: executor.eosTokenIds,
    notes: executor.notes,
  };
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
