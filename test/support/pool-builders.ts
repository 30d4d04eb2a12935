import { seededRandom } from "../../src/base/random.ts";
import type { Offer } from "../../src/pool/offer.ts";
import type { PoolEffect } from "../../src/pool/pool-effect.ts";
import type { PoolOptions } from "../../src/pool/pool.ts";
import { Pool } from "../../src/pool/pool.ts";
import type { ReplicaHello, ReplicaReport } from "../../src/protocol/engine-api.ts";
import { ModelId, PoolId, ReplicaId, RequestId, TenantId } from "../../src/protocol/ids.ts";
import type { LivePool } from "../../src/tenants/live-configuration.ts";

export const EPOCH = "epoch-1";

/** The first, second … replica of a pool made by `aLivePool`. */
export function urlOf(index: number): string {
  return `http://127.0.0.1:${9101 + index}`;
}

export function replicaIdOf(index: number): ReplicaId {
  return ReplicaId.parse(urlOf(index));
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

/** The hello of a replica with four sequences and no queue. */
export function aHello(index: number, change: Partial<ReplicaHello> = {}): ReplicaHello {
  return {
    kind: "hello",
    protocolVersion: 1,
    endpointUrl: urlOf(index),
    instanceId: `life-1-of-${index}`,
    modelId: "sluice-tiny",
    contextTokens: 2048,
    blockTokens: 16,
    blockCount: 1024,
    sequencesMax: 4,
    queueMax: 0,
    ...change,
  };
}

/** The report of an idle replica that prefills a token in a millisecond and steps in ten. */
export function aReport(sequence: number, change: Partial<ReplicaReport> = {}): ReplicaReport {
  return {
    kind: "report",
    sequence,
    queuedRequests: 0,
    runningRequests: 0,
    usedBlocks: 0,
    blockTokens: 16,
    blockCount: 1024,
    queuedUncachedTokens: 0,
    prefillTokensPerSecond: 1000,
    stepMs: 10,
    tightestTbtMs: null,
    lastDispatch: null,
    draining: false,
    ...change,
  };
}

/** The offer of a short prompt that is due in a second and has just arrived. */
export function anOffer(name: string, change: Partial<Offer> = {}): Offer {
  return {
    requestId: RequestId.parse(name),
    tenantId: TenantId.parse("tenant-a"),
    modelId: ModelId.parse("sluice-tiny"),
    promptBytes: 0,
    targets: {},
    firstTokenTargetMs: Math.max(1000, change.firstTokenBudgetMs ?? 0),
    firstTokenBudgetMs: 1000,
    excludedReplicaIds: [],
    ...change,
  };
}

/** A pool that begins at instant 0, without a configuration. */
export function aPool(change: Partial<PoolOptions> = {}): Pool {
  return new Pool({ epoch: EPOCH, startedAtMs: 0, random: seededRandom(1), ...change });
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
