import type { ReplicaSettings } from "../replicas/replica-state.ts";
import type { LivePool } from "../tenants/live-configuration.ts";
import { engineOf } from "../tenants/live-configuration.ts";

/** Returns what a pool's configuration says of each of its replicas. */
export function replicaSettingsOf(pool: LivePool): ReplicaSettings[] {
  const weightMin = Math.min(...pool.replicas.map(({ weight = 1 }) => weight));
  const isWeighted = pool.replicas.some(({ weight = 1 }) => weight > weightMin);
  const { replicas, secretName, transport, health } = pool;
  return replicas.map((replica) => {
    const { replicaId, endpointUrl, requestsMax, models, takesPriorities, weight = 1 } = replica;
    const engine = engineOf(pool, replica);
    return {
      replicaId,
      endpointUrl,
      ...(requestsMax !== undefined && { requestsMax }),
      ...(models !== undefined && { models }),
      ...(isWeighted && { weight: weight / weightMin }),
      ...(engine !== "sluice" && {
        plain: {
          engine,
          ...(secretName !== undefined && { secretName }),
          ...(takesPriorities && { takesPriorities }),
        },
      }),
      ...(transport !== undefined && { transport }),
      ...(health !== undefined && { health }),
    };
  });
}
