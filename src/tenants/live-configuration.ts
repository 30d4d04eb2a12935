import * as z from "zod";
import { ModelId, PoolId, ReplicaId, TenantId } from "../protocol/ids.ts";
import { ANSWER_MS_MAX } from "../slo/answer-span.ts";
import { EndpointUrl } from "./endpoint-url.ts";
import { JWT_ISSUERS_MAX, LiveJwtIssuer } from "./jwt-issuer.ts";
import type { KeyScope } from "./key-scope.ts";
import { KEY_SCOPES } from "./key-scope.ts";
import { ModelPrice } from "./model-price.ts";
import { isSecretName } from "./secret-name.ts";
import { findBrokenReferences } from "./live-references.ts";
import { SHARDS_MAX } from "./shard-allotments.ts";
import { GUARANTEED_RATIO_MAX } from "./share.ts";

/** How much one configuration may hold; one Durable Object keeps it, a row for each thing. */
export const CONFIGURATION_LIMITS = {
  /** As JSON, all of it. */
  bytesMax: 64_000_000,
  /** As one JSON document. What is larger comes as lines, so that nobody holds all of it at once. */
  documentBytesMax: 1_500_000,
  modelsMax: 256,
  poolsMax: 64,
  replicasPerPoolMax: 128,
  classesMax: 256,
  tenantsMax: 10_000,
  keysMax: 100_000,
  contextTokensMax: 10_000_000,
  weightMin: 0.01,
  weightMax: 1_000,
  bandMax: 9,
  /** Of one tenant or one replica at once. */
  requestsMax: 100_000,
  /** Of one tenant. */
  requestsPerMinuteMax: 10_000_000,
  tokensPerMinuteMax: 1_000_000_000_000,
  tokensPerMonthMax: 1_000_000_000_000_000,
  /** A thousand million of the currency. */
  spendPerMonthMaxMicros: 1_000_000_000_000_000,
  /** Requests that may wait in one pool. */
  queueMax: 10_000,
  /** Failures in a row. */
  ejectAfterMax: 100,
  cooldownMsMin: 100,
  cooldownMsMax: 3_600_000,
  timeoutMsMin: 10,
  timeoutMsMax: ANSWER_MS_MAX,
  /** No call waits longer for one, whoever serves it. */
  firstTokenTimeoutMsMax: 60_000,
  /** Objects of one tenant. */
  shardsMax: SHARDS_MAX,
  attemptsMin: 2,
  attemptsMax: 4,
} as const;

const Target = z.strictObject({
  percentileRatio: z.number().gt(0).lt(1),
  limitMs: z.number().positive(),
});

const TtftTarget = z.strictObject({
  ...Target.shape,
  perPromptTokenMs: z.number().positive().exactOptional(),
});

/** One promise with all of its numbers, as `SloTargets` has them. */
const Targets = z.strictObject({
  ttft: TtftTarget.exactOptional(),
  tpot: Target.exactOptional(),
  e2e: Target.exactOptional(),
  tbtMaxMs: z.number().positive().exactOptional(),
});

export const LiveReplica = z.strictObject({
  replicaId: ReplicaId,
  endpointUrl: EndpointUrl,
  /** Requests of ours that may be there at once, queued or running; absent: what it reports. */
  requestsMax: z.int().positive().max(CONFIGURATION_LIMITS.requestsMax).exactOptional(),
});
export type LiveReplica = z.infer<typeof LiveReplica>;

/** When a replica that fails is left alone, and for how long at the most; absent: as usual. */
const LiveHealth = z.strictObject({
  ejectAfter: z.int().positive().max(CONFIGURATION_LIMITS.ejectAfterMax).exactOptional(),
  cooldownMsMax: z
    .number()
    .min(CONFIGURATION_LIMITS.cooldownMsMin)
    .max(CONFIGURATION_LIMITS.cooldownMsMax)
    .exactOptional(),
});

/** Requests of one model that may run at once, over all replicas of its pool. */
const LiveModelLimit = z.strictObject({
  modelId: ModelId,
  requestsMax: z.int().positive().max(CONFIGURATION_LIMITS.requestsMax),
});

export const LivePool = z.strictObject({
  poolId: PoolId,
  /** `sluice` dials in and reports; `openai` is any server with that API, which does neither. */
  engine: z.enum(["sluice", "openai"]),
  replicas: z.array(LiveReplica).max(CONFIGURATION_LIMITS.replicasPerPoolMax),
  /** Requests that may wait in the pool. */
  queueMax: z.int().min(0).max(CONFIGURATION_LIMITS.queueMax),
  /** Names the secret of the Worker that replicas of engine `openai` are sent; never the secret. */
  secretName: z.string().refine(isSecretName, "the name of a secret").exactOptional(),
  health: LiveHealth.exactOptional(),
  modelLimits: z.array(LiveModelLimit).max(CONFIGURATION_LIMITS.modelsMax).exactOptional(),
});
export type LivePool = z.infer<typeof LivePool>;

export const LiveModel = z.strictObject({
  modelId: ModelId,
  poolId: PoolId,
  /** The name the replicas know. */
  upstreamModel: z.string().min(1).max(256),
  contextTokens: z.int().positive().max(CONFIGURATION_LIMITS.contextTokensMax),
  /** Absent: its tokens cost nothing. */
  price: ModelPrice.exactOptional(),
});
export type LiveModel = z.infer<typeof LiveModel>;

/** A tenant's part in one pool, as `TenantShare` has it. */
export const LiveShare = z.strictObject({
  poolId: PoolId,
  weight: z.number().min(CONFIGURATION_LIMITS.weightMin).max(CONFIGURATION_LIMITS.weightMax),
  guaranteedRatio: z.number().min(0).max(GUARANTEED_RATIO_MAX),
  band: z.int().min(0).max(CONFIGURATION_LIMITS.bandMax),
});
export type LiveShare = z.infer<typeof LiveShare>;

const TimeoutMs = z
  .number()
  .min(CONFIGURATION_LIMITS.timeoutMsMin)
  .max(CONFIGURATION_LIMITS.timeoutMsMax);

/** How long a tenant's calls may take; what is absent the gateway judges by itself. */
const LiveTimeouts = z.strictObject({
  /** From its start to its end, whatever happens in between. */
  totalMs: TimeoutMs.exactOptional(),
  /** Of one attempt at a stream, to its first token. */
  firstTokenMs: TimeoutMs.max(CONFIGURATION_LIMITS.firstTokenTimeoutMsMax).exactOptional(),
  /** From one event of a stream to the next. */
  stallMs: TimeoutMs.exactOptional(),
});

export const LiveTenant = z.strictObject({
  // What follows a stroke names one of its shards.
  tenantId: TenantId.refine((tenantId) => !tenantId.includes("/"), "a name without a stroke"),
  modelIds: z.array(ModelId),
  className: z.string().min(1).max(64),
  targets: Targets,
  /** Of the pools of its models; a configuration of an earlier version has none. */
  shares: z.array(LiveShare).max(CONFIGURATION_LIMITS.poolsMax).default([]),
  concurrencyMax: z.int().positive().max(CONFIGURATION_LIMITS.requestsMax).exactOptional(),
  requestsPerMinuteMax: z
    .int()
    .positive()
    .max(CONFIGURATION_LIMITS.requestsPerMinuteMax)
    .exactOptional(),
  tokensPerMinuteMax: z
    .int()
    .positive()
    .max(CONFIGURATION_LIMITS.tokensPerMinuteMax)
    .exactOptional(),
  tokensPerMonthMax: z.int().positive().max(CONFIGURATION_LIMITS.tokensPerMonthMax).exactOptional(),
  /** Of a calendar month, in millionths of the currency that prices are in. */
  spendPerMonthMaxMicros: z
    .int()
    .positive()
    .max(CONFIGURATION_LIMITS.spendPerMonthMaxMicros)
    .exactOptional(),
  /** Objects that it is spread over; absent: one. */
  shards: z.int().min(2).max(CONFIGURATION_LIMITS.shardsMax).exactOptional(),
  timeouts: LiveTimeouts.exactOptional(),
  /** Replicas that one call may be given to. */
  attemptsMax: z
    .int()
    .min(CONFIGURATION_LIMITS.attemptsMin)
    .max(CONFIGURATION_LIMITS.attemptsMax)
    .exactOptional(),
  /** Whether another replica goes on with a streamed answer when one fails under way; absent: it breaks. */
  continuation: z.boolean().exactOptional(),
});
export type LiveTenant = z.infer<typeof LiveTenant>;

/** What a key may be used for, and when. */
export const KeyPermissions = z.strictObject({
  notBeforeAtMs: z.number().exactOptional(),
  expiresAtMs: z.number().exactOptional(),
  /** Absent: `DEFAULT_KEY_SCOPES`. */
  scopes: z.array(z.enum(KEY_SCOPES)).min(1).max(KEY_SCOPES.length).exactOptional(),
  /** Of its tenant's models only these; absent: all of them. */
  modelIds: z.array(ModelId).min(1).max(CONFIGURATION_LIMITS.modelsMax).exactOptional(),
  /** Of its tenant's classes only these; absent: all of them. */
  classNames: z
    .array(z.string().min(1).max(64))
    .min(1)
    .max(CONFIGURATION_LIMITS.classesMax)
    .exactOptional(),
});
export type KeyPermissions = z.infer<typeof KeyPermissions>;

export const LiveKey = z.strictObject({
  /** HMAC-SHA-256 of the key under the pepper, 64 hex digits. */
  hash: z.string().regex(/^[0-9a-f]{64}$/),
  tenantId: TenantId,
  name: z.string().min(1).max(64),
  ...KeyPermissions.shape,
});
export type LiveKey = z.infer<typeof LiveKey>;

const LiveClass = z.strictObject({
  className: z.string().min(1).max(64),
  targets: Targets,
});

/** What is there once in a configuration, and not by name. */
export const LiveSettings = z.strictObject({
  /** Classes of the file's own, for tenants that come later by the admin API. */
  classes: z.array(LiveClass).max(CONFIGURATION_LIMITS.classesMax).exactOptional(),
  jwtIssuers: z.array(LiveJwtIssuer).max(JWT_ISSUERS_MAX).exactOptional(),
});
export type LiveSettings = z.infer<typeof LiveSettings>;

const Sections = z.strictObject({
  ...LiveSettings.shape,
  models: z.array(LiveModel).max(CONFIGURATION_LIMITS.modelsMax),
  pools: z.array(LivePool).max(CONFIGURATION_LIMITS.poolsMax),
  tenants: z.array(LiveTenant).max(CONFIGURATION_LIMITS.tenantsMax),
  keys: z.array(LiveKey).max(CONFIGURATION_LIMITS.keysMax),
});

/**
 * What `sluice apply` makes of a `sluice.yaml`: units resolved, defaults filled in, keys hashed.
 * Whatever this schema accepts is whole: every name it mentions exists, nothing exists twice, and what
 * it guarantees of a pool is there.
 */
export const LiveConfiguration = Sections.superRefine((configuration, refinement) => {
  for (const { path, message } of findBrokenReferences(configuration)) {
    refinement.addIssue({ code: "custom", path, message });
  }
});
export type LiveConfiguration = z.infer<typeof LiveConfiguration>;

/** Everything the edge needs to serve one key; the Directory answers a look-up with it. */
export interface TenantAccess {
  readonly tenant: LiveTenant;
  readonly keyName: string;
  /** The hash under which the key was found, so that the asker can compare it in constant time. */
  readonly keyHash: string;
  /** What the key may be used for. */
  readonly scopes: readonly KeyScope[];
  /** The tenant's models that the key may use, in the tenant's order. */
  readonly models: readonly LiveModel[];
  /** The classes that the key may use; absent: all of its tenant's. */
  readonly classNames?: readonly string[];
  readonly notBeforeAtMs?: number;
  readonly expiresAtMs?: number;
  readonly configurationVersion: number;
}
