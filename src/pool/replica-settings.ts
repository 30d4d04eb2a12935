import type { ReplicaSettings } from "../replicas/replica-state.ts";
import type { LivePool } from "../tenants/live-configuration.ts";
import { engineOf } from "../tenants/live-configuration.ts";

/** Returns what a pool's configuration says of each of its replicas. */
export function replicaSettingsOf(pool: LivePool): ReplicaSettings[] {
  const { replicas, secretName, transport, health } = pool;
  return replicas.map((replica) => {
    const { replicaId, endpointUrl, requestsMax } = replica;
    const engine = engineOf(pool, replica);
    return {
      replicaId,
      endpointUrl,
      ...(requestsMax !== undefined && { requestsMax }),
      ...(engine !== "sluice" && {
        plain: { engine, ...(secretName !== undefined && { secretName }) },
      }),
      ...(transport !== undefined && { transport }),
      ...(health !== undefined && { health }),
    };
  });
}
