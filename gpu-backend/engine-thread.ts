import { setTimeout as sleep } from "node:timers/promises";
import { type MessagePort, parentPort, workerData } from "node:worker_threads";
import { assert } from "../src/base/assert.ts";
import { monotonicNowMs } from "./clock.ts";
import { ConstraintIntake } from "./constraint-intake.ts";
import type { DraftModel } from "./draft-model.ts";
import { Engine } from "./engine/engine.ts";
import type { EngineOptions } from "./engine/engine-options.ts";
import { createOnnxExecutor, type OnnxExecutor } from "./engine/executor/onnx-executor.ts";
import type { KvLeases } from "./engine/kv-cache/kv-leases.ts";
import { messageOf } from "./engine/message-of.ts";
import { loadModel } from "./engine/model/load-model.ts";
import { StepMeter } from "./engine/step-meter.ts";
import { ConstraintCompiler } from "./engine/structured/constraint-compiler.ts";
import { shareVocabulary } from "./engine/structured/vocabulary.ts";
import { type TokenBytes, tokenBytesOf } from "./engine/tokenizer/token-bytes.ts";
import { readTokenizerFile } from "./engine/tokenizer/tokenizer-files.ts";
import { urgencyOf } from "./engine/urgency.ts";
import { hashBlock } from "./hash-block.ts";
import { exchangeKv, openPeers } from "./kv-peers/exchange-kv.ts";
import { type KvTiers, NO_TIERS, type TierStatistics } from "./kv-tiers/kv-tiers.ts";
import { openKvTiers } from "./kv-tiers/open-kv-tiers.ts";
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
import { unaskedBlockCount } from "./unasked-block-count.ts";
import { warmUp } from "./warm-up.ts";
import { loadDraftModel } from "./load-draft-model.ts";

/** What a disk may hold up the end of its engine. */
const WRITE_MS_MAX = 1_000;

/** Where all else decodes, a prompt that is computed holds up several others. */
const DECODE_PREFILL_COST_RATIO = 4;

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
async function serve({ options, watchMemory, kvPort }: EngineThreadInput): Promise<never> {
  const loaded = await load(options);
  const { executor } = loaded;
  const draftModel = await loadDraftModel(options, {
    vocabularyTokens: executor.vocabularyTokens,
    tokenBytes: loaded.tokenBytes,
  });
  const meter = new StepMeter(await warmUp(executor, monotonicNowMs));
  const peers = openPeers(options.kvPeers, { executor, kvPort, onFault: tellOperator });
  const kvTier =
    options.kvTiers &&
    openKvTiers(options.kvTiers, executor, {
      nowMs: monotonicNowMs,
      peers,
      onArrived: (id) => loop.kvArrived(id),
      onFault: (fault) => tellOperator(`The KV tier on disk is given up: ${fault}`),
    });
  const engine = new Engine(engineOptionsOf(options, { executor, meter, draftModel, kvTier }));
  let submissions = 0;
  const snapshot = () => {
    const { stepRetries } = loop;
    const { openingRequests } = intake;
    const tiers = kvTier?.statistics ?? NO_TIERS;
    return snapshotOf(engine, meter, { submissions, stepRetries, openingRequests, tiers });
  };
  const loop: StepLoop = new StepLoop({
    engine,
    executor,
    meter,
    draftModel,
    watch: new StepWatch(watchMemory),
    nowMs: monotonicNowMs,
    publish: (events, atMs) =>
      post({ kind: "events", events, atMs, snapshot: snapshot(), ...prefixNews(engine) }),
    onDraftsGivenUp: (reason) => tellOperator(`The draft model is given up: ${reason}`),
  });
  if (kvPort !== undefined) exchangeKv(kvPort, { executor, peers, leases: engine.kvLeases, loop });
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
      case "halt":
        void halt(kvTier);
        break;
    }
  });
  const facts = factsOf(engine, loaded, options);
  post({ kind: "loaded", facts, snapshot: snapshot() });
  return loop.run();
}

/** Ends this thread, once what was computed last is on disk for its next life, or the disk takes too long. */
async function halt(kvTier: KvTiers | undefined): Promise<void> {
  await Promise.race([kvTier?.whenWritten(), sleep(WRITE_MS_MAX)]);
  // Of this thread, not of the process.
  process.exit();
}

/** What the engine decides by. */
interface EngineParts {
  readonly executor: OnnxExecutor;
  readonly meter: StepMeter;
  readonly draftModel: DraftModel | undefined;
  readonly kvTier: KvTiers | undefined;
}

function engineOptionsOf(
  options: EngineThreadOptions,
  { executor, meter, draftModel, kvTier }: EngineParts,
): EngineOptions {
  return {
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
    ...(options.role === "decode" && { prefillCostRatio: DECODE_PREFILL_COST_RATIO }),
    chunkedPrefill: options.scheduling.chunkedPrefill,
    keepsTbt: options.scheduling.keepsTbt,
    ...(kvTier !== undefined && { kvTier }),
    kvAdmission: options.scheduling.kvAdmission,
    ...(options.speculating.mode !== "off" && {
      speculation: {
        looksUp: options.speculating.mode !== "draft",
        drafts: draftModel !== undefined,
        draftTokensMax: options.speculating.draftTokensMax,
      },
    }),
    shares: { shareCount: options.scheduling.kvShares, isolation: options.scheduling.isolation },
    modelRevision: executor.revision,
    hashBlock,
  };
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
    const blockCount =
      options.blockCount ??
      unaskedBlockCount(model, { ...options, kvPrecision }, options.scheduling.kvShares);
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
    readonly tiers: TierStatistics;
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
    prefixLoadedTokens: counters.prefix.loadedTokens,
    preemptions: counters.preemptions,
    drafts: counters.drafts,
    leases: leasesOf(engine.kvLeases),
    prefills: counters.prefills,
  };
}

function leasesOf({ count, endedEarly, holds, holdsEndedEarly }: KvLeases) {
  return { openLeases: count, endedEarly, holds, holdsEndedEarly };
}

function ownPort(): MessagePort {
  assert(parentPort !== null, "this is the program of a thread");
  return parentPort;
}

/** Says what the operator ought to know, while the engine goes on. */
function tellOperator(note: string): void {
  post({ kind: "note", note });
}

function post(message: EngineMessage): void {
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread has no origin
  port.postMessage(message);
}
