import type { Offer } from "../../src/pool/offer.ts";
import type { PoolEffect } from "../../src/pool/pool-effect.ts";
import type { PoolOptions } from "../../src/pool/pool.ts";
import { Pool } from "../../src/pool/pool.ts";
import type { ReplicaHello } from "../../src/protocol/engine-api.ts";
import { ModelId, PoolId, RequestId, TenantId } from "../../src/protocol/ids.ts";
import type { SloTargets } from "../../src/slo/targets.ts";
import type { LivePool } from "../../src/tenants/live-configuration.ts";
import type { TenantShare } from "../../src/tenants/share.ts";
import { aHello, aReport, EPOCH, replicaIdOf, urlOf } from "./replica-builders.ts";

/** All that can be guaranteed: whoever has it is in profile until two seconds' work is spent at once. */
const WHOLE_SHARE: TenantShare = { weight: 1, guaranteedRatio: 0.9, band: 0 };

/** Guarantees nothing: whoever has it is beyond its profile from the first request on. */
export const NO_GUARANTEE: TenantShare = { weight: 1, guaranteedRatio: 0, band: 0 };

/** The promise of a first token within so long, and nothing else. */
export function firstTokenWithin(limitMs: number): SloTargets {
  return { ttft: { percentileRatio: 0.99, limitMs } };
}

/** A configuration with `replicaCount` replicas. */
export function aLivePool(
  replicaCount: number,
  change: { readonly queueMax?: number; readonly requestsMax?: number } = {},
): LivePool {
  const { queueMax = 100, ...settings } = change;
  return {
    poolId: PoolId.parse("local"),
    engine: "sluice",
    replicas: Array.from({ length: replicaCount }, (_, index) => ({
      replicaId: replicaIdOf(index),
      endpointUrl: urlOf(index),
      ...settings,
    })),
    queueMax,
  };
}

/** The offer of a short prompt and a short answer, streamed, that is due in a second and has just arrived. */
export function anOffer(name: string, change: Partial<Offer> = {}): Offer {
  return {
    requestId: RequestId.parse(name),
    tenantId: TenantId.parse("tenant-a"),
    modelId: ModelId.parse("sluice-tiny"),
    share: WHOLE_SHARE,
    promptBytes: 0,
    targets: firstTokenWithin(1000),
    isStreamed: true,
    elapsedMs: 0,
    excludedReplicaIds: [],
    isRetry: false,
    outputTokensMax: 20,
    ...change,
  };
}

/** A pool that begins at instant 0, without a configuration. */
export function aPool(change: Partial<PoolOptions> = {}): Pool {
  return new Pool({ epoch: EPOCH, startedAtMs: 0, seed: 1, ...change });
}

/** A pool, long at work, whose replicas have connected and reported at instant 0 and are idle. */
export function aReadyPool(
  options: {
    readonly replicaCount?: number;
    readonly configuration?: { readonly queueMax?: number; readonly requestsMax?: number };
    readonly hello?: Partial<ReplicaHello>;
    readonly pool?: Partial<PoolOptions>;
  } = {},
): Pool {
  const replicaCount = options.replicaCount ?? 1;
  const pool = aPool({ startedAtMs: -60_000, ...options.pool });
  pool.configure(aLivePool(replicaCount, options.configuration), 0);
  for (let index = 0; index < replicaCount; index += 1) {
    pool.connected(aHello(index, options.hello), 0);
    pool.report(replicaIdOf(index), aReport(1), 0);
  }
  return pool;
}

type EffectOf<Kind extends PoolEffect["kind"]> = Extract<PoolEffect, { kind: Kind }>;

/** Returns the effects of one kind. */
export function only<Kind extends PoolEffect["kind"]>(
  kind: Kind,
  effects: readonly PoolEffect[],
): EffectOf<Kind>[] {
  return effects.filter((effect): effect is EffectOf<Kind> => effect.kind === kind);
}
