import type { LiveConfiguration } from "../../src/tenants/live-configuration.ts";

/** What a configuration says of a pool and its tenants and a plan does not heed, a line each. */
export function notSimulated(
  { pools, tenants }: LiveConfiguration,
  poolId: string,
  planned: readonly string[],
): string[] {
  const limited = tenants
    .filter(
      ({
        concurrencyMax,
        requestsPerMinuteMax,
        tokensPerMinuteMax,
        tokensPerMonthMax,
        spendPerMonthMaxMicros,
      }) =>
        [
          concurrencyMax,
          requestsPerMinuteMax,
          tokensPerMinuteMax,
          tokensPerMonthMax,
          spendPerMonthMaxMicros,
        ].some((limit) => limit !== undefined),
    )
    .map(({ tenantId }) => tenantId)
    .filter((name) => planned.includes(name));
  const replicas = pools.find((pool) => pool.poolId === poolId)?.replicas ?? [];
  const isWeighted = new Set(replicas.map(({ weight = 1 }) => weight)).size > 1;
  return [
    ...(limited.length > 0
      ? [
          `Not simulated: the limits of ${limited.join(", ")}, as if all that is offered were within them`,
        ]
      : []),
    ...(isWeighted ? [`Not simulated: the weights of the replicas of ${poolId}`] : []),
  ];
}
