import * as z from "zod";
import { ModelId, PoolId, ReplicaId, TenantId } from "../protocol/ids.ts";
import { EndpointUrl } from "./endpoint-url.ts";
import type { DocumentPath, Mention } from "./references.ts";
import { findRepeats, findUnknown } from "./references.ts";
import { GUARANTEED_RATIO_MAX, GUARANTEED_SUM_MAX } from "./share.ts";

/** How much one configuration may hold; one Durable Object keeps all of it in memory. */
export const CONFIGURATION_LIMITS = {
  /** As JSON: it is one value in SQLite, which may have 2 MB. */
  bytesMax: 1_500_000,
  modelsMax: 256,
  poolsMax: 64,
  replicasPerPoolMax: 128,
  classesMax: 256,
  tenantsMax: 4_000,
  keysMax: 8_000,
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
  /** Requests that may wait in one pool. */
  queueMax: 10_000,
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

export const LivePool = z.strictObject({
  poolId: PoolId,
  engine: z.literal("sluice"),
  replicas: z.array(LiveReplica).max(CONFIGURATION_LIMITS.replicasPerPoolMax),
  /** Requests that may wait in the pool. */
  queueMax: z.int().min(0).max(CONFIGURATION_LIMITS.queueMax),
});
export type LivePool = z.infer<typeof LivePool>;

export const LiveModel = z.strictObject({
  modelId: ModelId,
  poolId: PoolId,
  /** The name the replicas know. */
  upstreamModel: z.string().min(1).max(256),
  contextTokens: z.int().positive().max(CONFIGURATION_LIMITS.contextTokensMax),
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

export const LiveTenant = z.strictObject({
  tenantId: TenantId,
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
});
export type LiveTenant = z.infer<typeof LiveTenant>;

export const LiveKey = z.strictObject({
  /** HMAC-SHA-256 of the key under the pepper, 64 hex digits. */
  hash: z.string().regex(/^[0-9a-f]{64}$/),
  tenantId: TenantId,
  name: z.string().min(1).max(64),
  notBeforeAtMs: z.number().exactOptional(),
  expiresAtMs: z.number().exactOptional(),
});
export type LiveKey = z.infer<typeof LiveKey>;

const Sections = z.strictObject({
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
  const problems = [...findBrokenReferences(configuration), ...findOvercommitted(configuration)];
  for (const { path, message } of problems) {
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
  /** The tenant's models, in the tenant's order. */
  readonly models: readonly LiveModel[];
  readonly notBeforeAtMs?: number;
  readonly expiresAtMs?: number;
  readonly configurationVersion: number;
}

/** Each message completes "expected … to be". */
function findBrokenReferences({
  models,
  pools,
  tenants,
  keys,
}: LiveConfiguration): { path: DocumentPath; message: string }[] {
  const modelIds = models.map(({ modelId }, i) => mention(modelId, "models", i));
  const poolIds = pools.map(({ poolId }, i) => mention(poolId, "pools", i));
  const tenantIds = tenants.map(({ tenantId }, i) => mention(tenantId, "tenants", i));
  const hashes = keys.map(({ hash }, i) => mention(hash, "keys", i));
  // Across all pools, since an engine dials in to one pool.
  const endpoints = pools.flatMap(({ replicas }, i) =>
    replicas.map(({ endpointUrl }, j) => mention(endpointUrl, "pools", i, "replicas", j)),
  );
  const modelsOfTenants = tenants.map((tenant, i) =>
    tenant.modelIds.map((modelId, j) => mention(modelId, "tenants", i, "modelIds", j)),
  );
  const poolsOfShares = tenants.map(({ shares }, i) =>
    shares.map(({ poolId }, j) => mention(poolId, "tenants", i, "shares", j)),
  );

  const repeats = [
    modelIds,
    poolIds,
    tenantIds,
    hashes,
    endpoints,
    ...modelsOfTenants,
    ...poolsOfShares,
  ].flatMap(findRepeats);
  const unknown = [
    ...findUnknown(
      [
        ...models.map(({ poolId }, i) => mention(poolId, "models", i, "poolId")),
        ...poolsOfShares.flat(),
      ],
      pools.map(({ poolId }) => poolId),
    ),
    ...findUnknown(
      modelsOfTenants.flat(),
      models.map(({ modelId }) => modelId),
    ),
    ...findUnknown(
      keys.map(({ tenantId }, i) => mention(tenantId, "keys", i, "tenantId")),
      tenants.map(({ tenantId }) => tenantId),
    ),
  ];
  return [
    ...repeats.map(({ repeat }) => ({ path: repeat.path, message: "there only once" })),
    ...unknown.map(({ path }) => ({ path, message: "the name of something that exists" })),
  ];
}

/** The shares with which more of a pool is guaranteed than can be kept. */
function findOvercommitted({
  tenants,
}: LiveConfiguration): { path: DocumentPath; message: string }[] {
  const ratioByPool = new Map<PoolId, number>();
  return tenants.flatMap(({ shares }, i) =>
    shares.flatMap(({ poolId, guaranteedRatio }, j) => {
      const before = ratioByPool.get(poolId) ?? 0;
      ratioByPool.set(poolId, before + guaranteedRatio);
      if (before + guaranteedRatio <= GUARANTEED_SUM_MAX) return [];
      const path = ["tenants", i, "shares", j, "guaranteedRatio"];
      return [{ path, message: "within what can be guaranteed of its pool" }];
    }),
  );
}

function mention(name: string, ...path: DocumentPath): Mention {
  return { name, path };
}
