import * as z from "zod";
import { CHAIN_KEY_LENGTH } from "./prompt-chain.ts";

const Count = z.int().min(0);

/** Raised when a frame changes incompatibly; a pool closes connections of another version. */
export const REPLICA_PROTOCOL_VERSION = 3;

/** What a replica was started for. The pool's hint, and no lock: each of them serves whatever it is sent. */
export const REPLICA_ROLES = ["prefill", "decode", "mixed"] as const;
export type ReplicaRole = (typeof REPLICA_ROLES)[number];

/** First frame of a replica on its WebSocket to the pool: who it is and what it can hold. */
export const ReplicaHello = z.object({
  kind: z.literal("hello"),
  protocolVersion: z.literal(REPLICA_PROTOCOL_VERSION),
  /** Where the gateway reaches this replica; must equal a replica of the pool's configuration. */
  endpointUrl: z.url().max(512),
  /** New in every life of the process, so that a restart is noticed. */
  instanceId: z.string().min(1).max(64),
  modelId: z.string().min(1).max(256),
  contextTokens: Count,
  blockTokens: Count,
  blockCount: Count,
  /** Sequences that may run in one step. */
  sequencesMax: Count,
  /** Requests that may wait for a slot. */
  queueMax: Count,
  /** Tokens of one step, prefill and decode together. */
  batchTokensMax: z.int().min(1),
  /** True where a step has no more prefill than the TBT targets of those that decode allow. */
  keepsTbt: z.boolean(),
  /** Absent: mixed. */
  role: z.enum(REPLICA_ROLES).exactOptional(),
});
export type ReplicaHello = z.infer<typeof ReplicaHello>;

const Milliseconds = z.number().min(0).max(1e9);

/** What one unit of each kind of a step's work takes, as the replica has fitted it to its steps. */
const StepCost = z.object({
  fixedMs: Milliseconds,
  tokenMs: Milliseconds,
  attendedPairMs: Milliseconds,
  sequenceMs: Milliseconds,
  kvTokenMs: Milliseconds,
});

/** Names of beginnings that one report tells at most; the next one, soon, tells the rest. */
export const REPORTED_PREFIXES_MAX = 1_500;

/** Names without gaps between them. */
const PrefixKeys = z
  .string()
  .max(REPORTED_PREFIXES_MAX * CHAIN_KEY_LENGTH)
  .regex(/^[A-Za-z0-9_-]*$/)
  .refine((keys) => keys.length % CHAIN_KEY_LENGTH === 0, "names of one length");

/** What has changed of the beginnings of prompts that a replica has cached, by the names in `x-gw-chain`. */
const CachedPrefixes = z.object({
  /** One more each time; where one is missing, changes are. */
  sequence: z.int().min(1),
  /** True: whatever was told before is void. */
  isWhole: z.boolean(),
  stored: PrefixKeys,
  removed: PrefixKeys,
});
export type CachedPrefixes = z.infer<typeof CachedPrefixes>;

/** What a pool says on a replica's connection, if anything: that it has missed something of these. */
export const PREFIXES_WANTED = "prefixes";

/**
 * What a replica says about itself: on change, coalesced to 100 ms, and at least every 500 ms.
 * It carries no instants, since the clocks of two machines differ.
 */
export const ReplicaReport = z.object({
  kind: z.literal("report"),
  /** 1, 2, 3 … within one connection; a pool ignores what is not newer. */
  sequence: z.int().min(1),
  queuedRequests: Count,
  runningRequests: Count,
  /** Blocks held by running sequences; cached but free blocks are not counted. */
  usedBlocks: Count,
  blockTokens: Count,
  blockCount: Count,
  /** Prompt tokens that are neither computed nor cached, of waiting and running requests. */
  queuedUncachedTokens: Count,
  /** Pairs of such a token and one it attends to. */
  queuedAttendedPairs: Count,
  /** Tokens whose KV running requests hold; a shared one counts for each. */
  runningKvTokens: Count,
  /** Tokens whose KV waiting requests will hold when they begin to run. */
  waitingKvTokens: Count,
  step: StepCost,
  /** How many times longer than `step` says the last few dozen steps took. */
  speedRatio: z.number().positive().max(1e6),
  /** Which share of the last two seconds went to prefill. */
  prefillTimeRatio: z.number().min(0).max(1),
  /** Prompt tokens computed per second while prefilling, measured. */
  prefillTokensPerSecond: z.number().min(0),
  /** Decaying mean of one step's duration. */
  stepMs: z.number().min(0),
  /** The tightest TBT target among the requests that run or wait here. */
  tightestTbtMs: z.number().positive().nullable(),
  /** The highest dispatch of the pool's current epoch that has arrived here. */
  lastDispatch: z.object({ epoch: z.string().max(64), number: z.int().min(1) }).nullable(),
  /** True while the replica finishes what it has and takes nothing new. */
  draining: z.boolean(),
  /** Absent where nothing has changed since the last report. */
  cached: CachedPrefixes.exactOptional(),
});
export type ReplicaReport = z.infer<typeof ReplicaReport>;

export const ReplicaFrame = z.discriminatedUnion("kind", [ReplicaHello, ReplicaReport]);
export type ReplicaFrame = z.infer<typeof ReplicaFrame>;

export const REPORT_COALESCE_MS = 100;
export const REPORT_INTERVAL_MS = 500;
/** One frame is far below this; a larger one is not ours. */
export const REPLICA_FRAME_BYTES_MAX = 16_384;

/** Why a pool ends a replica's connection: the WebSocket's close code. */
export const REPLICA_CLOSE_CODES = {
  /** The pool cannot read its own configuration at present. */
  tryAgainLater: 1013,
  /** A frame is no `hello` or `report`, too large, or not the one that was due. */
  badFrame: 4400,
  /** No replica of the pool's configuration has this endpoint URL. */
  unknownReplica: 4404,
  /** The same replica has dialled in again. */
  replaced: 4409,
  /** The pool is closed, and nothing of it runs any more. */
  poolClosed: 4423,
  /** The pool does not speak this protocol version. */
  protocolVersion: 4426,
} as const;
export type ReplicaCloseCode = (typeof REPLICA_CLOSE_CODES)[keyof typeof REPLICA_CLOSE_CODES];
