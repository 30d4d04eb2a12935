import { ReplicaId } from "../../src/protocol/ids.ts";
import type {
  LiveConfiguration,
  LivePool,
  LiveReplica,
} from "../../src/tenants/live-configuration.ts";

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
 * Finds the engines to start: one for every replica with a loopback URL. `replicaCount` takes the
 * first few of the one local pool, or adds replicas on the ports after its last. Returns a sentence
 * instead where the configuration gives no such plan.
 */
export function planStack(
  configuration: LiveConfiguration,
  replicaCount: number | undefined,
):
  | { readonly kind: "ok"; readonly plan: StackPlan }
  | { readonly kind: "invalid"; readonly problem: string } {
  const sized =
    replicaCount === undefined ? configuration : resizeLocalPool(configuration, replicaCount);
  if (typeof sized === "string") return invalid(sized);

  const engines: EnginePlan[] = [];
  for (const pool of sized.pools) {
    const local = pool.replicas.filter(isLocal);
    if (local.length === 0) continue;
    const models = sized.models.filter((model) => model.poolId === pool.poolId);
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
  if (engines.length === 0) {
    return invalid("No pool has a replica at a loopback URL such as http://127.0.0.1:9101");
  }
  if (engines.length > REPLICAS_MAX) {
    return invalid(`${engines.length} engines are too many for one machine (${REPLICAS_MAX})`);
  }
  return { kind: "ok", plan: { engines, configuration: sized } };
}

const invalid = (problem: string) => ({ kind: "invalid", problem }) as const;

/** Returns the configuration with `count` local replicas, or why that cannot be. */
function resizeLocalPool(
  configuration: LiveConfiguration,
  count: number,
): LiveConfiguration | string {
  const [pool, ...others] = configuration.pools.filter((each) => each.replicas.some(isLocal));
  const last = pool?.replicas.findLast(isLocal);
  if (pool === undefined || last === undefined || others.length > 0) {
    return `--replicas needs exactly one pool with loopback replicas, found ${pool === undefined ? 0 : others.length + 1}`;
  }
  const local = pool.replicas.filter(isLocal);
  const portMax = toAddress(last.endpointUrl).port + Math.max(count - local.length, 0);
  if (portMax > PORT_MAX) return `--replicas ${count} needs ports above the last one, ${PORT_MAX}`;
  const added = Array.from({ length: Math.max(count - local.length, 0) }, (_, index) =>
    atLaterPort(last, index + 1),
  );
  const resized: LivePool = {
    ...pool,
    replicas: [
      ...pool.replicas.filter((replica) => !isLocal(replica)),
      ...local.slice(0, count),
      ...added,
    ],
  };
  return {
    ...configuration,
    pools: configuration.pools.map((each) => (each === pool ? resized : each)),
  };
}

function atLaterPort(replica: LiveReplica, offset: number): LiveReplica {
  const url = new URL(replica.endpointUrl);
  url.port = String(toAddress(replica.endpointUrl).port + offset);
  return { ...replica, replicaId: ReplicaId.parse(url.origin), endpointUrl: url.origin };
}

const LOOPBACK = /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/;

/** The engine speaks plain HTTP at its root, so only such a URL can be one that we start. */
function isLocal({ endpointUrl }: LiveReplica): boolean {
  const url = new URL(endpointUrl);
  return url.protocol === "http:" && url.pathname === "/" && LOOPBACK.test(url.hostname);
}

function toAddress(endpointUrl: string): { readonly host: string; readonly port: number } {
  const url = new URL(endpointUrl);
  // A URL leaves its scheme's own port out.
  return { host: url.hostname.replaceAll(/[[\]]/g, ""), port: Number(url.port || "80") };
}
