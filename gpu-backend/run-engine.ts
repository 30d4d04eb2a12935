import { createHash, randomUUID } from "node:crypto";
import { setTimeout } from "node:timers/promises";
import { assert } from "../src/base/assert.ts";
import type { ReplicaHello } from "../src/protocol/engine-api.ts";
import { monotonicNowMs } from "./clock.ts";
import { PrefixFeed } from "./engine/prefix-feed.ts";
import { type ReportedState, toReportedState } from "./engine/reported-load.ts";
import { loadChatTemplate } from "./engine/tokenizer/chat-template.ts";
import { loadTokenizer, type Tokenizer } from "./engine/tokenizer/tokenizer.ts";
import { EngineClient } from "./engine-client.ts";
import type { KvNeighbours } from "./kv-peers/kv-neighbours.ts";
import { type KvService, openKvService } from "./kv-peers/kv-service.ts";
import type { Log } from "./log.ts";
import { PromptEncoder } from "./prompt-encoder.ts";
import { createApp } from "./server/app.ts";
import type { ServedModel } from "./server/app-context.ts";
import { DispatchTracker } from "./engine/dispatch-tracker.ts";
import { EndedRequests } from "./server/ended-requests.ts";
import { createEngineMetrics } from "./server/engine-metrics.ts";
import { listen, type Listener } from "./server/listen.ts";
import { ReportLink, type ReportLinkOptions } from "./server/report-link.ts";
import { TokenLabels } from "./server/token-labels.ts";
import type { Settings } from "./settings.ts";
import type { EngineFacts, EngineThreadOptions } from "./thread-messages.ts";

/** An engine that serves. */
export interface RunningEngine {
  readonly url: string;
  /**
   * Resolves with the reason when the engine breaks; its open requests have failed by then. It
   * stays open after `stop`.
   */
  readonly broken: Promise<string>;
  /** Refuses what is new, lets what is here finish for `drainMs` at most, then lets go of all. */
  stop(): Promise<void>;
  /** Lets go of all at once. */
  halt(): Promise<void>;
}

/** Time for the last frames of an answer to reach its client before connections are cut. */
const CLOSE_GRACE_MS = 1000;
const FINGERPRINT_CHARACTERS = 12;

/**
 * Composes one engine: its thread, the HTTP surface, and the link to its pool. Health answers while
 * the model loads. Rejects, with nothing left behind, if the address is taken or the model is not
 * one that can be served. KV goes in memory between engines that are given the same `neighbours`.
 */
export async function runEngine(
  settings: Settings,
  log: Log,
  neighbours?: KvNeighbours,
): Promise<RunningEngine> {
  const startedAtMs = monotonicNowMs();
  let servedModel: ServedModel | undefined;
  let link: ReportLink | undefined;
  const prefixFeed = new PrefixFeed();
  const kv = settings.secret === undefined ? undefined : openKvService(settings.secret, neighbours);
  const engine = openEngine(settings, { kv, prefixFeed, log, onChange: () => link?.changed() });
  const dispatches = new DispatchTracker();
  const app = createApp({
    engine,
    servedModel: () => servedModel,
    secret: settings.secret,
    requireSalt: settings.requireSalt,
    prefixCache: settings.prefixCache,
    metrics: createEngineMetrics(() => engine.load),
    dispatches,
    endedRequests: new EndedRequests(),
    kvLender: kv?.lender,
    log,
  });
  let listener: Listener | undefined;
  try {
    listener = await listen(app, settings);
    const [facts, tokenizer] = await Promise.all([
      engine.loaded,
      loadTokenizer(settings.modelDirectory),
    ]);
    servedModel = await describeModel(settings, { facts, tokenizer, log });
    link = openLink(settings, {
      hello: helloOf(settings, servedModel, facts, listener.url),
      readState: () => stateOf(engine, dispatches),
      prefixFeed,
      log,
    });
    kv?.join(settings.advertiseUrl ?? listener.url);
    logReady(log, settings, facts, { url: listener.url, readyMs: monotonicNowMs() - startedAtMs });
  } catch (error) {
    kv?.close();
    await engine.close("The engine did not start");
    await listener?.close(0);
    throw error;
  }
  let stopping: Promise<void> | undefined;
  return {
    url: listener.url,
    broken: engine.ended.then((reason) => reason ?? new Promise<never>(() => {})),
    stop: () =>
      (stopping ??= stop({ settings, engine, kv, link, listener, prompts: servedModel?.prompts })),
    halt: () => {
      kv?.close();
      return engine.close("The engine is stopped at once");
    },
  };
}

function openEngine(
  settings: Settings,
  parts: {
    readonly kv: KvService | undefined;
    readonly prefixFeed: PrefixFeed;
    readonly log: Log;
    readonly onChange: () => void;
  },
): EngineClient {
  const { kv, prefixFeed, log, onChange } = parts;
  return new EngineClient({
    thread: threadOptionsOf(settings),
    ...(kv !== undefined && { kvPort: kv.enginePort }),
    onPlan: (plan) => log("info", "memory-plan", { ...plan }),
    onChange,
    onPrefixChanges: (changes) => prefixFeed.apply(changes),
    onNote: (note) => log("warn", "note", { note }),
  });
}

/** Field by field, since the settings also hold the secret, which is no business of the thread. */
function threadOptionsOf(settings: Settings): EngineThreadOptions {
  return {
    modelDirectory: settings.modelDirectory,
    precision: settings.precision,
    kvPrecision: settings.kvPrecision,
    runtime: settings.runtime,
    blockTokens: settings.blockTokens,
    blockCount: settings.blockCount,
    batchTokensMax: settings.batchTokensMax,
    sequencesMax: settings.sequencesMax,
    queueMax: settings.queueMax,
    prefixCache: settings.prefixCache,
    scheduling: settings.scheduling,
    speculating: settings.speculating,
    kvTiers: settings.kvTiers,
    kvPeers: settings.kvPeers,
    role: settings.role,
  };
}

async function describeModel(
  settings: Settings,
  {
    facts,
    tokenizer,
    log,
  }: { readonly facts: EngineFacts; readonly tokenizer: Tokenizer; readonly log: Log },
): Promise<ServedModel> {
  const { contextTokens, blockTokens, endTokenIds } = facts;
  if (tokenizer.vocabularyTokens > facts.vocabularyTokens) {
    throw new Error(
      `The tokenizer of ${settings.modelDirectory} has ${tokenizer.vocabularyTokens} tokens, but ` +
        `the model only ${facts.vocabularyTokens}: expected both to be of one model`,
    );
  }
  const { modelDirectory } = settings;
  const chatTemplate = await loadChatTemplate(modelDirectory, { tokenizer, contextTokens });
  if (chatTemplate === undefined) {
    const note = "The model has no chat template: it serves /v1/completions, and no chats";
    log("warn", "note", { note });
  }
  return {
    name: settings.modelName,
    createdAtSeconds: Math.floor(Date.now() / 1000),
    systemFingerprint: fingerprintOf(facts),
    contextTokens,
    blockTokens,
    endTokenIds,
    vocabularyTokens: tokenizer.vocabularyTokens,
    prompts: new PromptEncoder({
      model: { tokenizer, chatTemplate, contextTokens },
      modelDirectory,
    }),
    tokenBytes: tokenizer.tokenBytes,
    tokenLabels: new TokenLabels(tokenizer.tokenBytes, tokenizer.specialTokens),
  };
}

function fingerprintOf({ modelRevision, runtime }: EngineFacts): string {
  const digest = createHash("sha256").update(`${modelRevision} ${runtime}`).digest("hex");
  return `fp_${digest.slice(0, FINGERPRINT_CHARACTERS)}`;
}

function helloOf(
  settings: Settings,
  model: ServedModel,
  facts: EngineFacts,
  listenUrl: string,
): ReplicaHello {
  return {
    kind: "hello",
    protocolVersion: 3,
    endpointUrl: settings.advertiseUrl ?? listenUrl,
    instanceId: randomUUID(),
    modelId: model.name,
    contextTokens: model.contextTokens,
    blockTokens: facts.blockTokens,
    blockCount: facts.blockCount,
    sequencesMax: settings.sequencesMax,
    queueMax: settings.queueMax,
    batchTokensMax: settings.batchTokensMax,
    keepsTbt: settings.scheduling.keepsTbt,
    ...(settings.role !== "mixed" && { role: settings.role }),
  };
}

/** The link to the pool, if there is one to report to. */
function openLink(
  { poolUrl, secret }: Settings,
  parts: Omit<ReportLinkOptions, "poolUrl" | "secret" | "random">,
): ReportLink | undefined {
  if (poolUrl === undefined || secret === undefined) return undefined;
  return new ReportLink({ ...parts, poolUrl, secret, random: Math.random });
}

function stateOf(engine: EngineClient, dispatches: DispatchTracker): ReportedState {
  const load = engine.load;
  assert(load !== undefined, "the pool hears of an engine that has loaded");
  return toReportedState(load, load, monotonicNowMs(), {
    lastDispatch: dispatches.last ?? null,
    draining: engine.condition !== "serving",
  });
}

function logReady(
  log: Log,
  settings: Settings,
  facts: EngineFacts,
  start: { readonly url: string; readonly readyMs: number },
): void {
  for (const note of facts.notes) log("warn", "note", { note });
  log("info", "ready", {
    url: start.url,
    model: settings.modelName,
    parameters: facts.parameterCount,
    precision: settings.precision,
    runtime: facts.runtime,
    kvBlocks: facts.blockCount,
    blockTokens: facts.blockTokens,
    weightBytes: facts.weightBytes,
    kvPoolBytes: facts.kvPoolBytes,
    kvPoolTokens: facts.blockCount * facts.blockTokens,
    scratchBytes: facts.scratchBytes,
    contextTokens: facts.contextTokens,
    readyMs: Math.round(start.readyMs),
  });
}

async function stop(parts: {
  readonly settings: Settings;
  readonly engine: EngineClient;
  readonly kv: KvService | undefined;
  readonly prompts: PromptEncoder | undefined;
  readonly link: ReportLink | undefined;
  readonly listener: Listener;
}): Promise<void> {
  const { settings, engine, kv, prompts, link, listener } = parts;
  engine.drain();
  await Promise.race([engine.whenIdle(), setTimeout(settings.drainMs, undefined, { ref: false })]);
  link?.close();
  kv?.close();
  await Promise.all([engine.close("The engine is shutting down"), prompts?.close()]);
  await listener.close(CLOSE_GRACE_MS);
}
