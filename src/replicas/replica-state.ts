import type { AverageState } from "../base/average.ts";
import type { ReplicaHello, ReplicaReport, ReplicaRole } from "../protocol/engine-api.ts";
import type { ForeignEngine } from "../protocol/engine-kind.ts";
import type { EngineSignals } from "../protocol/engine-signals.ts";
import type { ReplicaId } from "../protocol/ids.ts";
import type { HealthOptions, ReplicaHealthState } from "./health.ts";
import type { ListedNames } from "./listed-names.ts";
import type { PrefillBacklogState } from "./prefill-backlog.ts";
import type { PrefixIndexState } from "./prefix-index.ts";
import { newPrefixIndexState } from "./prefix-index.ts";
import type { ResidentsState } from "./residents.ts";
import type { ServedModelsState } from "./served-models.ts";
import type { UpstreamQuotaState } from "./upstream-quota.ts";
import { ceilingOf } from "./upstream-quota.ts";
import type { SpeedFactorState } from "./speed-factor.ts";
import type { ClaimedSpeedState } from "./claimed-speed.ts";
import { claimsBelieved } from "./claimed-speed.ts";

/** What the configuration says of a replica. */
export interface ReplicaSettings {
  readonly replicaId: ReplicaId;
  readonly endpointUrl: string;
  /** Requests of ours that may be there at once, queued or running. */
  readonly requestsMax?: number;
  /**
   * Its part of the pool's requests beside the others', of which the least has 1; absent where all have the same.
   */
  readonly weight?: number;
  /** Names, as it knows them, of the models that it serves; absent: what it says, or whatever it is asked for. */
  readonly models?: readonly string[];
  /**
   * Present for a server that is not ours. It never dials in and never reports: what is known of it is what
   * was sent there and how that went, and what it says when it is asked.
   */
  readonly plain?: PlainServer;
  /** How it is reached, beyond its URL. */
  readonly transport?: ReplicaTransport;
  /** When it is left alone for its failures; what is absent is as usual. */
  readonly health?: Partial<HealthOptions>;
}

/** The way to a replica, by what the Worker has under these names. */
export interface ReplicaTransport {
  /** A binding that has a `fetch` of its own. */
  readonly via?: string;
  /** The two secrets of a service token of Cloudflare Access. */
  readonly access?: { readonly idName: string; readonly secretName: string };
}

/** How a server that is not ours is spoken to. */
export interface PlainServer {
  /** Which kind of server it is. */
  readonly engine: ForeignEngine;
  /** Names the secret that it is sent as bearer; absent: none. */
  readonly secretName?: string;
  /** It was configured to be told how urgent a request is. */
  readonly takesPriorities?: true;
}

export interface ReplicaOptions {
  readonly health?: Partial<HealthOptions>;
  readonly prefixKeysMax?: number;
  /** Names that replicas of its pool list; absent: it is alone. */
  readonly listedNames?: ListedNames;
  /** False leaves out of the load what was sent since the report, to show what that is for. */
  readonly countsLedger?: boolean;
}

/** What decides, before any forecast, whether a replica can be sent a request. */
export interface FitnessFacts {
  readonly replicaId: ReplicaId;
  /** Whether it serves the model that was asked for, as far as anybody knows. */
  readonly hasModel: boolean;
  /** Connected, heard of lately, and neither draining nor removed. */
  readonly isReady: boolean;
  /** Taken out for its failures, and with no probe due. */
  readonly isEjected: boolean;
  readonly freeSlots: number;
}

/** What a {@link Replica} remembers. */
export interface ReplicaState {
  settings: ReplicaSettings;
  isRemoved: boolean;
  isConnected: boolean;
  /** By an operator's word nothing new is sent there. */
  isDrained?: true;
  hello?: ReplicaHello;
  report?: ReplicaReport;
  reportAtMs: number;
  /** What a server that is not ours said when it was last asked, and when that was. */
  signals?: { readonly said: EngineSignals; readonly atMs: number };
  /** When one of our requests last got something from there: its first token, its end or a refusal. */
  answeredAtMs?: number;
  /** Of the last report on the present connection. */
  sequence: number;
  strangers: number;
  /** Requests that we think are there and the last report does not have. */
  missing: number;
  /** KV of requests that were in the last report and have left since. */
  releasedKvTokens: number;
  readonly models: ServedModelsState;
  /** How much a server that is not ours takes, as far as it has shown. */
  readonly quota: UpstreamQuotaState;
  readonly residents: ResidentsState;
  readonly health: ReplicaHealthState;
  readonly prefixes: PrefixIndexState;
  /** Of an engine that does not tell what its steps cost, and of one that does. */
  readonly speed: SpeedFactorState;
  readonly claimedSpeed: ClaimedSpeedState;
  readonly prefillTime: AverageState;
  readonly backlog: PrefillBacklogState;
}

/** A replica that nothing is known of yet. */
export function newReplicaState(settings: ReplicaSettings): ReplicaState {
  return {
    settings,
    isRemoved: false,
    isConnected: false,
    reportAtMs: 0,
    sequence: 0,
    strangers: 0,
    missing: 0,
    releasedKvTokens: 0,
    models: { refused: new Map() },
    quota: { cutNumber: 0 },
    residents: { requests: new Map(), sentNumber: 0, acknowledgedNumber: 0 },
    health: { failures: 0, stalls: [], ejections: 0 },
    prefixes: newPrefixIndexState(),
    speed: { logRatio: 0 },
    claimedSpeed: claimsBelieved(),
    prefillTime: { weight: 0 },
    backlog: { tokens: 0, atMs: 0 },
  };
}

/** Where nobody says what a plain server can hold: so many sequences run there by vLLM's default. */
const PLAIN_REQUESTS_MAX = 256;

/**
 * Requests that a replica may have at once; none until it has said what it can hold. One that says nothing
 * has as many as are configured, or as are usual.
 */
export function slotsMaxOf({ hello, settings, signals }: ReplicaState): number {
  if (settings.plain !== undefined) {
    return settings.requestsMax ?? signals?.said.runningMax ?? PLAIN_REQUESTS_MAX;
  }
  if (hello === undefined || hello.sequencesMax === 0) return 0;
  const held = hello.sequencesMax + hello.queueMax;
  return Math.min(held, settings.requestsMax ?? held);
}

/** The same, of a server that has shown to take no more than so many of those. */
export function slotsOf(state: ReplicaState): number {
  return Math.min(slotsMaxOf(state), ceilingOf(state.quota));
}

/** What a replica was started for; of one that does not say, or is not ours, everything. */
export function roleOf({ hello, settings }: ReplicaState): ReplicaRole {
  return settings.plain === undefined ? (hello?.role ?? "mixed") : "mixed";
}

/** Names the kind of replica: those of one kind load and run the same. */
export function profileOf({ hello, settings }: ReplicaState): string {
  if (settings.plain !== undefined) return "plain";
  if (hello === undefined) return "unknown";
  const pacing = hello.keepsTbt ? " paced" : "";
  return `${hello.modelId} ${hello.sequencesMax}x${hello.batchTokensMax}${pacing}`;
}
