import type { PoolId } from "../protocol/ids.ts";
import type { LiveConfiguration } from "./live-configuration.ts";
import type { DocumentPath, Mention } from "./references.ts";
import { findRepeats, findUnknown } from "./references.ts";
import { GUARANTEED_SUM_MAX } from "./share.ts";

interface BrokenReference {
  readonly path: DocumentPath;
  readonly message: string;
}

/**
 * Finds the names of a configuration that point nowhere or are there twice, and what of it cannot be kept
 * together. Each message completes "expected … to be".
 */
export function findBrokenReferences(configuration: LiveConfiguration): BrokenReference[] {
  return [
    ...findBrokenNames(configuration),
    ...findOvercommitted(configuration),
    ...findForeignModels(configuration),
    ...findUnpriced(configuration),
  ];
}

function findBrokenNames({ models, pools, tenants, keys }: LiveConfiguration): BrokenReference[] {
  const modelIds = models.flatMap(({ modelId, aliases = [] }, i) => [
    mention(modelId, "models", i),
    ...aliases.map((alias, j) => mention(alias, "models", i, "aliases", j)),
  ]);
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
  const fallbacks = tenants.flatMap(({ overload = [] }, i) =>
    overload.flatMap((step, j) =>
      step.kind === "fallback"
        ? [mention(step.modelId, "tenants", i, "overload", j, "modelId")]
        : [],
    ),
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
      [...modelsOfTenants.flat(), ...fallbacks],
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
function findOvercommitted({ tenants }: LiveConfiguration): BrokenReference[] {
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

/** Models without a price of tenants whose spend is limited. */
function findUnpriced({ tenants, models }: LiveConfiguration): BrokenReference[] {
  const unpriced = new Set<string>(
    models.flatMap(({ modelId, price }) => (price ? [] : [modelId])),
  );
  return tenants.flatMap(({ modelIds, overload = [], spendPerMonthMaxMicros }, i) => {
    if (spendPerMonthMaxMicros === undefined) return [];
    const used = [
      ...modelIds.map((modelId, j) => mention(modelId, "tenants", i, "modelIds", j)),
      ...overload.flatMap((step, j) =>
        step.kind === "fallback" ? [mention(step.modelId, "tenants", i, "overload", j)] : [],
      ),
    ];
    return used
      .filter(({ name }) => unpriced.has(name))
      .map(({ path }) => ({ path, message: "a model with a price" }));
  });
}

/** Limits of a pool on models that it does not serve, or on one model twice, and replicas that are said to have such. */
function findForeignModels({ pools, models }: LiveConfiguration): BrokenReference[] {
  return pools.flatMap(({ poolId, modelLimits = [], replicas }, i) => {
    const own = models.filter((model) => model.poolId === poolId).map(({ modelId }) => modelId);
    const limited = modelLimits.map(({ modelId }, j) =>
      mention(modelId, "pools", i, "modelLimits", j, "modelId"),
    );
    const served = replicas.flatMap(({ models: names = [] }, j) =>
      names.map((name, k) => mention(name, "pools", i, "replicas", j, "models", k)),
    );
    const upstream = models.filter((model) => model.poolId === poolId);
    return [
      ...findUnknown(
        served,
        upstream.map(({ upstreamModel }) => upstreamModel),
      ).map(({ path }) => ({ path, message: "a model of its pool" })),
      ...findUnknown(limited, own).map(({ path }) => ({ path, message: "a model of its pool" })),
      ...findRepeats(limited).map(({ repeat }) => ({
        path: repeat.path,
        message: "there only once",
      })),
    ];
  });
}

function mention(name: string, ...path: DocumentPath): Mention {
  return { name, path };
}
