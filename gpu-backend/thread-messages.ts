import type { MessagePort } from "node:worker_threads";
import type { ReplicaRole } from "../src/protocol/engine-api.ts";
import type { PrefillStatistics } from "./engine/engine-counters.ts";
import type { EngineLoad } from "./engine/engine-load.ts";
import type { MemoryPlan } from "./engine/executor/memory-plan.ts";
import type { RuntimeChoice } from "./engine/executor/runtime-choice.ts";
import type { GenerateEvent, GenerateRequest } from "./engine/generate-request.ts";
import type { PrefixChanges } from "./engine/kv-cache/prefix-names.ts";
import type { KvTierSettings } from "./kv-tiers/open-kv-tiers.ts";
import type { TierStatistics } from "./kv-tiers/kv-tiers.ts";
import type { Scheduling } from "./engine/scheduling.ts";
import type { DraftStatistics } from "./engine/speculation/draft-counter.ts";
import type { Speculating } from "./engine/speculation/speculating.ts";
import type { StepMeasurements } from "./engine/step-meter.ts";

/** What the engine thread is started with. */
export interface EngineThreadOptions {
  readonly modelDirectory: string;
  readonly precision: "int8" | "f32";
  /** Absent: as `precision` says. */
  readonly kvPrecision: "int8" | "f32" | undefined;
  readonly runtime: RuntimeChoice;
  readonly blockTokens: number;
  /** Absent: as many as the default KV memory holds. */
  readonly blockCount: number | undefined;
  readonly batchTokensMax: number;
  readonly sequencesMax: number;
  readonly queueMax: number;
  readonly prefixCache: boolean;
  readonly scheduling: Scheduling;
  readonly speculating: Speculating;
  /** Absent: what the KV pool evicts is gone. */
  readonly kvTiers?: KvTierSettings | undefined;
  /** Engines that may be asked for KV, none unless given; with `kvTiers` alone. */
  readonly kvPeers?: readonly string[];
  /** Mixed unless given. */
  readonly role?: ReplicaRole;
}

/** All that the engine thread is given at its start. */
export interface EngineThreadInput {
  readonly options: EngineThreadOptions;
  /** Where the thread counts its steps, see `StepWatch`. */
  readonly watchMemory: SharedArrayBuffer;
  /** By which KV comes from other engines and goes to them; absent: none does. */
  readonly kvPort?: MessagePort | undefined;
}

/** What the engine thread found when it had loaded the model. */
export interface EngineFacts {
  /** Names all that its KV, and so its text, depends on: weights, configuration, arithmetic. */
  readonly modelRevision: string;
  readonly parameterCount: number;
  readonly vocabularyTokens: number;
  /** The longest sequence that is served: the model's context, or what a step or a share bounds it to. */
  readonly contextTokens: number;
  readonly blockTokens: number;
  readonly blockCount: number;
  readonly weightBytes: number;
  readonly kvPoolBytes: number;
  /** Buffers of a step, as planned. */
  readonly scratchBytes: number;
  /** Name and version of what runs the model. */
  readonly runtime: string;
  /** Tokens that end every answer. */
  readonly endTokenIds: readonly number[];
  /** What an operator ought to know of this machine and model; mostly empty. */
  readonly notes: readonly string[];
}

/** Load, speed and counters of the engine at one instant. */
export interface EngineSnapshot extends EngineLoad, StepMeasurements {
  /** Requests submitted so far that the engine thread has taken notice of. */
  readonly submissions: number;
  readonly promptTokens: number;
  readonly outputTokens: number;
  readonly prefixQueriedTokens: number;
  readonly prefixHitTokens: number;
  readonly preemptions: number;
  readonly stepRetries: number;
  readonly drafts: DraftStatistics;
  /** Of the tokens that were hit, those loaded from below the pool. */
  readonly prefixLoadedTokens: number;
  readonly tiers: TierStatistics;
  readonly leases: LeaseStatistics;
  readonly prefills: PrefillStatistics;
}

/** Blocks that other engines are copying, or are to copy. */
interface LeaseStatistics {
  readonly openLeases: number;
  /** Not renewed in time, or in the way of what runs here. */
  readonly endedEarly: number;
  /** Prompts that were computed for others, and not fetched yet. */
  readonly holds: number;
  readonly holdsEndedEarly: number;
}

/** From the main thread to the engine thread. */
export type EngineCommand =
  | { readonly kind: "submit"; readonly request: GenerateRequest }
  | { readonly kind: "cancel"; readonly id: string }
  | { readonly kind: "drain" }
  /** The thread is to end, between two steps. */
  | { readonly kind: "halt" };

/** An engine event, or that a request's first tokens are being computed, behind those found cached. */
export type EngineEvent =
  | GenerateEvent
  | { readonly kind: "started"; readonly id: string; readonly cachedTokens: number };

/** Whether an event is the last one of its request. */
export function isTerminal({ kind }: EngineEvent): boolean {
  return kind === "finished" || kind === "refused" || kind === "failed";
}

/** From the engine thread to the main thread. */
export type EngineMessage =
  /** What the model will take, before anything is taken. */
  | { readonly kind: "planned"; readonly plan: MemoryPlan }
  | { readonly kind: "loaded"; readonly facts: EngineFacts; readonly snapshot: EngineSnapshot }
  | {
      readonly kind: "events";
      readonly events: readonly EngineEvent[];
      /** When they happened, on the clock that all threads share. */
      readonly atMs: number;
      readonly snapshot: EngineSnapshot;
      /** What has changed of the gateway's names for what is cached; absent: nothing has. */
      readonly prefixes?: PrefixChanges;
    }
  /** Something for the operator to know, while the engine goes on. */
  | { readonly kind: "note"; readonly note: string }
  /** The last message of a thread that cannot go on. */
  | { readonly kind: "broken"; readonly message: string };
