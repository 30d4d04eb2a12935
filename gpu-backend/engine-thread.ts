import { type MessagePort, parentPort, workerData } from "node:worker_threads";
import { assert } from "../src/base/assert.ts";
import { monotonicNowMs } from "./clock.ts";
import { Engine } from "./engine/engine.ts";
import { createOnnxExecutor, type OnnxExecutor } from "./engine/executor/onnx-executor.ts";
import { loadModel } from "./engine/model/load-model.ts";
import { StepMeter } from "./engine/step-meter.ts";
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
  post({ kind: "broken", message: error instanceof Error ? error.message : String(error) });
}

/** Loads the model, says so, then serves until the runtime breaks or the thread is ended. */
async function serve({ options, watchMemory }: EngineThreadInput): Promise<never> {
  const { executor, parameterCount } = await load(options);
  const meter = new StepMeter(await warmUp(executor, monotonicNowMs));
  const engine = new Engine({
    blockCount: executor.blockCount,
    blockTokens: executor.blockTokens,
    contextTokens: executor.contextTokens,
    batchTokensMax: executor.batchTokensMax,
    sequencesMax: options.sequencesMax,
    queueMax: options.queueMax,
    prefixCache: options.prefixCache,
    modelRevision: executor.revision,
    hashBlock,
  });
  let submissions = 0;
  const snapshot = () => snapshotOf(engine, meter, { submissions, stepRetries: loop.stepRetries });
  const loop: StepLoop = new StepLoop({
    engine,
    executor,
    meter,
    watch: new StepWatch(watchMemory),
    nowMs: monotonicNowMs,
    publish: (events, atMs) => post({ kind: "events", events, atMs, snapshot: snapshot() }),
  });
  port.on("message", (command: EngineCommand) => {
    switch (command.kind) {
      case "submit":
        submissions += 1;
        loop.submit(command.request);
        break;
      case "cancel":
        loop.cancel(command.id);
        break;
      case "drain":
        loop.drain();
        break;
    }
  });
  post({ kind: "loaded", facts: factsOf(executor, parameterCount), snapshot: snapshot() });
  return loop.run();
}

async function load(
  options: EngineThreadOptions,
): Promise<{ executor: OnnxExecutor; parameterCount: number }> {
  const model = await loadModel(options.modelDirectory);
  const executor = await createOnnxExecutor({
    model,
    precision: options.precision,
    blockTokens: options.blockTokens,
    blockCount: options.blockCount ?? defaultBlockCount(model.config, options.blockTokens),
    batchTokensMax: options.batchTokensMax,
  });
  return { executor, parameterCount: countParameters(model) };
}

function factsOf(executor: OnnxExecutor, parameterCount: number): EngineFacts {
  return {
    modelRevision: executor.revision,
    parameterCount,
    vocabularyTokens: executor.vocabularyTokens,
    contextTokens: executor.contextTokens,
    blockTokens: executor.blockTokens,
    blockCount: executor.blockCount,
    weightBytes: executor.memory.weightBytes,
    kvPoolBytes: executor.memory.kvPoolBytes,
    runtime: executor.runtime,
    endTokenIds: executor.eosTokenIds,
    notes: executor.notes,
  };
}

function snapshotOf(
  engine: Engine,
  meter: StepMeter,
  counted: { readonly submissions: number; readonly stepRetries: number },
): EngineSnapshot {
  const { counters } = engine;
  return {
    ...counted,
    ...engine.load(),
    ...meter.speed,
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
