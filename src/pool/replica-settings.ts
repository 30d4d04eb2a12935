import type { ReplicaSettings } from "../replicas/replica-state.ts";
import type { LivePool } from "../tenants/live-configuration.ts";

/** Returns what a pool's configuration says of each of its replicas. */
export function replicaSettingsOf({
  engine,
  replicas,
  secretName,
  health,
}: LivePool): ReplicaSettings[] {
  const plain = engine !== "sluice" && {
    plain: { engine, ...(secretName !== undefined && { secretName }) },
  };
  return replicas.map((replica) => ({
    ...replica,
    ...plain,
    ...(health !== undefined && { health }),
  }));
}
