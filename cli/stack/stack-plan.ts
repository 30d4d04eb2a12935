import { isLoopbackHost } from "../../src/base/loopback-host.ts";
import type { ReplicaRole } from "../../src/protocol/engine-api.ts";
import { ReplicaId } from "../../src/protocol/ids.ts";
import type {
  LiveConfiguration,
  LivePool,
  LiveReplica,
} from "../../src/tenants/live-configuration.ts";
import { engineOf } from "../../src/tenants/live-configuration.ts";
import { assignRoles } from "./replica-roles.ts";

/** One engine to start: the replica it is, and where it listens. */
export interface EnginePlan {
  /** What the terminal calls it: `replica-1`, `replica-2` … */
  readonly name: string;
  readonly poolId: string;
  readonly endpointUrl: string;
  readonly host: string;
  readonly port: number;
  /** The name under which the gateway will ask it for its model. */
  readonly upstreamModel: string;
  /** What the pool is to send it; absent: whatever comes. */
  readonly role?: ReplicaRole;
}

/** Which engines a configuration asks of this machine, and the configuration they then serve. */
export interface StackPlan {
  readonly engines: readonly EnginePlan[];
  readonly configuration: LiveConfiguration;
}

/** Engines of one machine; more would only take turns on its cores. */
export const REPLICAS_MAX = 16;
const PORT_MAX = 65_535;

/**
 * Finds the engines to start: one for every replica of ours with a loopback URL. `replicaCount` takes the
 * first few of the one local pool, or adds replicas on the ports after its last; `roles` are theirs, in order,
 * and count them where nothing else does. Returns a sentence instead where there is no such plan.
 */
export function planStack(
  configuration: LiveConfiguration,
  replicaCount: number | undefined,
  roles?: readonly ReplicaRole[],
):
  | { readonly kind: "ok"; readonly plan: StackPlan }
  | { readonly kind: "invalid"; readonly problem: string } {
  const resized = resizeLocalPool(configuration, replicaCount ?? roles?.length);
  if (resized.kind === "invalid") return resized;
  const engines: EnginePlan[] = [];
  for (const pool of resized.configuration.pools) {
    const local = localReplicasOf(pool);
    if (local.length === 0) continue;
    const models = resized.configuration.models.filter((model) => model.poolId === pool.poolId);
    const [upstreamModel, other] = [...new Set(models.map((model) => model.upstreamModel))];
    if (upstreamModel === undefined) return invalid(`Pool "${pool.poolId}" serves no model`);
    if (other !== undefined) {
      return invalid(
        `Pool "${pool.poolId}" serves "${upstreamModel}" and "${other}": an engine holds one model`,
      );
    }
    for (const { endpointUrl } of local) {
      const name = `replica-${engines.length + 1}`;
      const { host, port } = toAddress(endpointUrl);
      engines.push({ name, poolId: pool.poolId, endpointUrl, host, port, upstreamModel });
    }
  }
  if (engines.length === 0 && !configuration.pools.some(hasForeign)) {
    return invalid("No pool has a replica at a loopback URL such as http://127.0.0.1:9101");
  }
  if (engines.length > REPLICAS_MAX) {
    return invalid(`${engines.length} engines are too many for one machine (${REPLICAS_MAX})`);
  }
  const assigned = assignRoles(engines, roles);
  if (assigned.kind === "invalid") return assigned;
  return {
    kind: "ok",
    plan: { engines: assigned.engines, configuration: resized.configuration },
  };
}

const invalid = (problem: string) => ({ kind: "invalid", problem }) as const;

/** Returns the configuration with `count` local replicas, where a count is asked for. */
function resizeLocalPool(configuration: LiveConfiguration, count: number | undefined) {
  if (count === undefined) return { kind: "ok", configuration } as const;
  const pools = configuration.pools.filter((pool) => localReplicasOf(pool).length > 0);
  const [pool] = pools;
  const local = pool === undefined ? [] : localReplicasOf(pool);
  const last = local.at(-1);
  if (pool === undefined || last === undefined || pools.length > 1) {
    return invalid(
      `--replicas needs exactly one pool with loopback replicas, found ${pools.length}`,
    );
  }
  const addedCount = Math.max(count - local.length, 0);
  if (toAddress(last.endpointUrl).port + addedCount > PORT_MAX) {
    return invalid(`--replicas ${count} needs ports beyond ${PORT_MAX}, the last one there is`);
  }
  const replicas = [
    ...pool.replicas.filter((replica) => !local.includes(replica)),
    ...local.slice(0, count),
    ...Array.from({ length: addedCount }, (_, index) => atLaterPort(last, index + 1)),
  ];
  const resizedPools = configuration.pools.map((each) =>
    each === pool ? { ...pool, replicas } : each,
  );
  return { kind: "ok", configuration: { ...configuration, pools: resizedPools } } as const;
}

function atLaterPort(replica: LiveReplica, offset: number): LiveReplica {
  const url = new URL(replica.endpointUrl);
  url.port = String(toAddress(replica.endpointUrl).port + offset);
  return { ...replica, replicaId: ReplicaId.parse(url.origin), endpointUrl: url.origin };
}

function hasForeign(pool: LivePool): boolean {
  return pool.replicas.some((replica) => engineOf(pool, replica) !== "sluice");
}

/** Servers that are not ours are somebody else's to start, wherever they are. */
function localReplicasOf(pool: LivePool): readonly LiveReplica[] {
  return pool.replicas.filter(
    (replica) => engineOf(pool, replica) === "sluice" && isLoopback(replica),
  );
}

/** The engine speaks plain HTTP at its root, so only such a URL can be one that we start. */
function isLoopback({ endpointUrl }: LiveReplica): boolean {
  const url = new URL(endpointUrl);
  return url.protocol === "http:" && url.pathname === "/" && isLoopbackHost(url.hostname);
}

function toAddress(endpointUrl: string): { readonly host: string; readonly port: number } {
  const url = new URL(endpointUrl);
  // A URL leaves its scheme's own port out.
  return { host: url.hostname.replaceAll(/[[\]]/g, ""), port: Number(url.port || "80") };
}
