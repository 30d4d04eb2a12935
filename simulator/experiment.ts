import { PoolId, ReplicaId } from "../src/protocol/ids.ts";
import { capacityOf } from "../src/pool/capacity.ts";
import type { Mechanisms } from "../src/pool/mechanisms.ts";
import { LivePool } from "../src/tenants/live-configuration.ts";
import type { ClientBehaviour } from "./client.ts";
import type { Dispatcher, DispatchWatch, VerdictListener } from "./dispatcher.ts";
import type { Fault } from "./faults.ts";
import { scheduleFault } from "./faults.ts";
import type { ForeignServer } from "./foreign-server.ts";
import type { GatewayTimeouts } from "./attempt-watch.ts";
import type { HardwareProfile } from "./hardware-profile.ts";
import type { Policy } from "./policies/policy.ts";
import { PolicyDispatcher } from "./policy-dispatcher.ts";
import { PoolDispatcher } from "./pool-dispatcher.ts";
import { priceOf, speedOf, SUSTAINABLE_RATIO } from "./reference-cost.ts";
import type { ReportFaults } from "./replica-link.ts";
import type { RequestRecord } from "./request-record.ts";
import { Scorecard } from "./scorecard.ts";
import type { SimulatedReplicaOptions } from "./simulated-replica.ts";
import { replicaUrl, Simulation, tenantsOf } from "./simulation.ts";
import type { ArrivalSpec } from "./workloads/arrival.ts";
import type { LoadBasis } from "./workloads/scenarios.ts";
import { generateArrivals } from "./workloads/workload.ts";
import type { Workload } from "./workloads/workload.ts";
import type { World } from "./world.ts";

/** One run whose outcome is counted: a workload on a pool, under the real core or a policy. */
export interface ExperimentOptions {
  readonly seed: number;
  readonly profiles: readonly HardwareProfile[];
  /** Which of the replicas are not ours, by their place; absent: all are. */
  readonly servers?: readonly (ForeignServer | undefined)[];
  readonly workload: Workload;
  /** Requests to send instead of the workload's, whose tenants they are of: of a recorded trace. */
  readonly createArrivals?: () => Iterable<ArrivalSpec>;
  /** Absent: the real core. */
  readonly createPolicy?: () => Policy;
  readonly mechanisms?: Partial<Mechanisms>;
  /** Requests that arrive before this do not count: caches are empty and nothing is learned. */
  readonly warmUpMs: number;
  /** How long requests count; afterwards those that are there come to their end. */
  readonly measuredMs: number;
  readonly faults?: readonly Fault[];
  readonly clients?: ClientBehaviour;
  /** How the engines schedule; first come, first served, without regard to gaps, unless given. */
  readonly engine?: Pick<SimulatedReplicaOptions, "policy" | "keepsTbt">;
  /** When replicas are given up that say nothing; as a gateway's configuration has it unless given. */
  readonly timeouts?: GatewayTimeouts;
  /** Whether late first tokens are acted on: hedged, or tried elsewhere; they wait unless given. */
  readonly actsOnLateness?: boolean;
  /** What happens to replicas' reports on their way. */
  readonly reportFaults?: ReportFaults;
  /** Replicas tell that each part of a step takes so many times as long as they found. */
  readonly toldStepRatio?: number;
  /** Sees every verdict of this run. */
  readonly createWatch?: () => DispatchWatch;
  /** Is shown every request that has ended, counted or not. */
  readonly onRecord?: (record: RequestRecord) => void;
}

export interface ExperimentResult {
  readonly scorecard: Scorecard;
  readonly simulation: Simulation;
}

const QUEUE_MAX = 10_000;
/** After the last arrival the slowest answers still run; no target reaches so far. */
const DRAIN_MS = 120_000;
const EVENTS_MAX = 2 ** 31;

/** What a load of 1 means on a pool: all of its replicas' time, as the core itself reckons it. */
export function loadBasisOf(profiles: readonly HardwareProfile[]): LoadBasis {
  const capacity = capacityOf(profiles.map(speedOf));
  if (capacity === undefined) throw new RangeError("Expected at least one replica, found none");
  const { reference, rateMsPerMs } = capacity;
  return { price: (size) => priceOf(size, reference), capacityPerSecond: 1000 * rateMsPerMs };
}

/** What a load of 1 means where it is to be what least-outstanding just sustains. */
export function sustainableBasisOf(profiles: readonly HardwareProfile[]): LoadBasis {
  const { price, capacityPerSecond } = loadBasisOf(profiles);
  return { price, capacityPerSecond: SUSTAINABLE_RATIO * capacityPerSecond };
}

/** The configuration of a pool with so many replicas, of which some may be servers that are not ours. */
export function livePoolOf(
  replicas: number,
  servers: readonly (ForeignServer | undefined)[] = [],
): LivePool {
  return LivePool.parse({
    poolId: PoolId.parse("simulated"),
    engine: "sluice",
    replicas: Array.from({ length: replicas }, (_, index) => ({
      replicaId: ReplicaId.parse(replicaUrl(index)),
      endpointUrl: replicaUrl(index),
      engine: servers[index]?.engine ?? "sluice",
    })),
    queueMax: QUEUE_MAX,
  });
}

/** Runs an experiment to its end. The same options give the same result. */
export function runExperiment(options: ExperimentOptions): ExperimentResult {
  const { seed, profiles, workload, warmUpMs, createPolicy, onRecord } = options;
  const untilMs = warmUpMs + options.measuredMs;
  const { price } = loadBasisOf(profiles);
  const scorecard = new Scorecard({
    tenantNames: workload.tenants.map(({ profile }) => profile.name),
    fromMs: warmUpMs,
    untilMs,
    priceOf: ({ spec }) => price(spec),
  });
  const simulation = new Simulation({
    seed,
    profiles,
    tenants: tenantsOf(workload),
    createDispatcher: (world, listener) => dispatcherOf(options, world, listener),
    onRecord: (record) => {
      scorecard.add(record);
      onRecord?.(record);
    },
    tellsDeadlines: createPolicy === undefined,
    ...(options.servers !== undefined && { servers: options.servers }),
    ...(options.clients !== undefined && { clients: options.clients }),
    ...(options.timeouts !== undefined && { timeouts: options.timeouts }),
    ...(options.actsOnLateness !== undefined && { actsOnLateness: options.actsOnLateness }),
    ...(options.engine !== undefined && { engine: options.engine }),
    ...(options.reportFaults !== undefined && { reportFaults: options.reportFaults }),
    ...(options.toldStepRatio !== undefined && { toldStepRatio: options.toldStepRatio }),
  });
  const { world, links, gateway } = simulation;
  for (const fault of options.faults ?? []) {
    scheduleFault(fault, { world, links, dispatcher: gateway.dispatcher });
  }
  simulation.send(
    options.createArrivals?.() ?? generateArrivals(workload, world.randomFor("workload"), untilMs),
  );
  world.runToEnd({ endAtMs: untilMs + DRAIN_MS, eventsMax: EVENTS_MAX });
  return { scorecard, simulation };
}

function dispatcherOf(
  { profiles, servers, createPolicy, mechanisms, createWatch }: ExperimentOptions,
  world: World,
  listener: VerdictListener,
): Dispatcher {
  const watch = createWatch?.();
  const heard = watch?.listener(listener) ?? listener;
  const pool = { pool: livePoolOf(profiles.length, servers), ...(mechanisms && { mechanisms }) };
  const dispatcher =
    createPolicy === undefined
      ? new PoolDispatcher(pool, world, heard)
      : new PolicyDispatcher(createPolicy(), world, heard);
  return watch?.dispatcher(dispatcher) ?? dispatcher;
}
