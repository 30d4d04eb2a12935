import * as z from "zod";
import type { Engine } from "../protocol/engine-kind.ts";
import { ENGINES } from "../protocol/engine-kind.ts";
import { ModelId, PoolId, ReplicaId, TenantId } from "../protocol/ids.ts";
import { ANSWER_MS_MAX } from "../slo/answer-span.ts";
import { LiveCache } from "./cache-section.ts";
import { EndpointUrl } from "./endpoint-url.ts";
import { JWT_ISSUERS_MAX, LiveJwtIssuer } from "./jwt-issuer.ts";
import { KEY_SCOPES } from "./key-scope.ts";
import { ModelPrice } from "./model-price.ts";
import type { OverloadStep } from "./overload-step.ts";
import { isSecretName } from "./secret-name.ts";
import { findBrokenReferences } from "./live-references.ts";
import { LiveTransport } from "./transport.ts";
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
  replicaWeightMax: 100,
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
  /** Steps of one tenant's overload ladder. */
  overloadStepsMax: 8,
  outputTokensMax: 10_000_000,
  /** Further names of one model. */
  aliasesMax: 32,
  /** Classes that one tenant's requests may ask for. */
  classesPerTenantMax: 8,
  /** Pages that one tenant's keys may be used from. */
  originsMax: 32,
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

const UpstreamModel = z.string().min(1).max(256);

export const LiveReplica = z.strictObject({
  replicaId: ReplicaId,
  endpointUrl: EndpointUrl,
  /** Which kind it is, where that is not the pool's. */
  engine: z.enum(ENGINES).exactOptional(),
  /** Requests of ours that may be there at once, queued or running; absent: what it reports. */
  requestsMax: z.int().positive().max(CONFIGURATION_LIMITS.requestsMax).exactOptional(),
  /** Its part of the requests beside the others'; absent: 1. */
  weight: z.int().positive().max(CONFIGURATION_LIMITS.replicaWeightMax).exactOptional(),
  /** The models that it serves, by the name that replicas know; absent: what it says, or all of its pool. */
  models: z.array(UpstreamModel).min(1).max(CONFIGURATION_LIMITS.modelsMax).exactOptional(),
  /** It is told how urgent a request is; absent: it is not. */
  takesPriorities: z.literal(true).exactOptional(),
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
  /** Of replicas that do not say it. `sluice` dials in and reports; others are asked, as far as they say anything. */
  engine: z.enum(ENGINES),
  replicas: z.array(LiveReplica).max(CONFIGURATION_LIMITS.replicasPerPoolMax),
  /** Requests that may wait in the pool. */
  queueMax: z.int().min(0).max(CONFIGURATION_LIMITS.queueMax),
  /** Names the secret of the Worker that replicas that are not ours are sent; never the secret. */
  secretName: z.string().refine(isSecretName, "the name of a secret").exactOptional(),
  /** Absent: by their URLs alone. */
  transport: LiveTransport.exactOptional(),
  health: LiveHealth.exactOptional(),
  modelLimits: z.array(LiveModelLimit).max(CONFIGURATION_LIMITS.modelsMax).exactOptional(),
});
export type LivePool = z.infer<typeof LivePool>;

/** Which kind a replica of a pool is: its own, or that of all. */
export function engineOf(
  pool: Pick<LivePool, "engine">,
  { engine = pool.engine }: LiveReplica,
): Engine {
  return engine;
}

export const LiveModel = z.strictObject({
  modelId: ModelId,
  poolId: PoolId,
  /** The name the replicas know. */
  upstreamModel: UpstreamModel,
  contextTokens: z.int().positive().max(CONFIGURATION_LIMITS.contextTokensMax),
  /** Absent: its tokens cost nothing. */
  price: ModelPrice.exactOptional(),
  /** Further names that clients may ask for it by. */
  aliases: z.array(ModelId).max(CONFIGURATION_LIMITS.aliasesMax).exactOptional(),
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

const LiveOverloadStep = z.discriminatedUnion("kind", [
  z.strictObject({ kind: z.literal("queue"), ratio: z.number().min(0).max(1) }),
  z.strictObject({
    kind: z.literal("clamp"),
    outputTokensMax: z.int().positive().max(CONFIGURATION_LIMITS.outputTokensMax),
  }),
  z.strictObject({ kind: z.literal("fallback"), modelId: ModelId }),
  z.strictObject({ kind: z.literal("reject") }),
]) satisfies z.ZodType<OverloadStep>;

/** A promise by its name. */
const LiveClass = z.strictObject({ className: z.string().min(1).max(64), targets: Targets });

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
  /** Absent: `CACHE_DEFAULTS`. */
  cache: LiveCache.exactOptional(),
  /** Replicas that one call may be given to. */
  attemptsMax: z
    .int()
    .min(CONFIGURATION_LIMITS.attemptsMin)
    .max(CONFIGURATION_LIMITS.attemptsMax)
    .exactOptional(),
  /** Other classes than its own that its requests may ask for. */
  classes: z.array(LiveClass).max(CONFIGURATION_LIMITS.classesPerTenantMax).exactOptional(),
  /** What is done before one of its requests is refused; absent: it waits. */
  overload: z.array(LiveOverloadStep).max(CONFIGURATION_LIMITS.overloadStepsMax).exactOptional(),
  /** Pages that its keys may be used from, by their origins; absent: all. */
  origins: z.array(z.string().min(1).max(300)).max(CONFIGURATION_LIMITS.originsMax).exactOptional(),
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

/** Whether clients may ask for a model by this name. */
export function isNamed({ modelId, aliases = [] }: LiveModel, name: ModelId): boolean {
  return modelId === name || aliases.includes(name);
}
