import * as z from "zod";
import { ModelId, PoolId, ReplicaId, TenantId } from "../protocol/ids.ts";

const Target = z.strictObject({
  percentileRatio: z.number().gt(0).lt(1),
  limitMs: z.number().positive(),
});

/** One promise with all of its numbers, as `SloTargets` has them. */
const Targets = z.strictObject({
  ttft: Target.exactOptional(),
  tpot: Target.exactOptional(),
  e2e: Target.exactOptional(),
  tbtMaxMs: z.number().positive().exactOptional(),
});

export const LiveReplica = z.strictObject({
  replicaId: ReplicaId,
  endpointUrl: z.url(),
  /** Requests of ours that may be there at once, queued or running; absent: what it reports. */
  requestsMax: z.int().positive().exactOptional(),
});
export type LiveReplica = z.infer<typeof LiveReplica>;

export const LivePool = z.strictObject({
  poolId: PoolId,
  engine: z.literal("sluice"),
  replicas: z.array(LiveReplica),
  /** Requests that may wait in the pool. */
  queueMax: z.int().min(0),
});
export type LivePool = z.infer<typeof LivePool>;

export const LiveModel = z.strictObject({
  modelId: ModelId,
  poolId: PoolId,
  /** The name the replicas know. */
  upstreamModel: z.string(),
  contextTokens: z.int().positive(),
});
export type LiveModel = z.infer<typeof LiveModel>;

export const LiveTenant = z.strictObject({
  tenantId: TenantId,
  modelIds: z.array(ModelId),
  className: z.string(),
  targets: Targets,
  concurrencyMax: z.int().positive().exactOptional(),
});
export type LiveTenant = z.infer<typeof LiveTenant>;

export const LiveKey = z.strictObject({
  /** HMAC-SHA-256 of the key under the pepper, 64 hex digits. */
  hash: z.string().regex(/^[0-9a-f]{64}$/),
  tenantId: TenantId,
  name: z.string(),
  notBeforeAtMs: z.number().exactOptional(),
  expiresAtMs: z.number().exactOptional(),
});
export type LiveKey = z.infer<typeof LiveKey>;

/** What `sluice apply` makes of a `sluice.yaml`: units resolved, defaults filled in, keys hashed. */
export const LiveConfiguration = z.strictObject({
  models: z.array(LiveModel),
  pools: z.array(LivePool),
  tenants: z.array(LiveTenant),
  keys: z.array(LiveKey),
});
export type LiveConfiguration = z.infer<typeof LiveConfiguration>;

/** Everything the edge needs to serve one key; the Directory answers a look-up with it. */
export interface TenantAccess {
  readonly tenant: LiveTenant;
  readonly keyName: string;
  readonly models: readonly LiveModel[];
  readonly notBeforeAtMs?: number;
  readonly expiresAtMs?: number;
  readonly configurationVersion: number;
}
