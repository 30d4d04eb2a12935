import type { ReplicaReport } from "../src/protocol/engine-api.ts";
import type { ReplicaId } from "../src/protocol/ids.ts";
import { ModelId, TenantId } from "../src/protocol/ids.ts";
import type { ClientBehaviour } from "./client.ts";
import { Clients, PATIENT_CLIENTS } from "./client.ts";
import type { Dispatcher, VerdictListener } from "./dispatcher.ts";
import type { GatewayTimeouts } from "./attempt-watch.ts";
import type { ForeignServer } from "./foreign-server.ts";
import { pollServer } from "./foreign-server.ts";
import { Gateway } from "./gateway.ts";
import type { HardwareProfile } from "./hardware-profile.ts";
import type { ReportFaults } from "./replica-link.ts";
import { ReplicaLink } from "./replica-link.ts";
import type { RequestRecord } from "./request-record.ts";
import type { SimulatedReplicaOptions } from "./simulated-replica.ts";
import type { SimulatedTenant } from "./simulated-tenant.ts";
import type { ArrivalSpec } from "./workloads/arrival.ts";
import type { Workload } from "./workloads/workload.ts";
import { World } from "./world.ts";

/** What one simulation consists of. */
export interface SimulationOptions {
  readonly seed: number;
  /** One replica each. */
  readonly profiles: readonly HardwareProfile[];
  /** Which of them are not ours, by their place; absent: all are. */
  readonly servers?: readonly (ForeignServer | undefined)[];
  readonly tenants: readonly SimulatedTenant[];
  readonly createDispatcher: (world: World, listener: VerdictListener) => Dispatcher;
  readonly onRecord: (record: RequestRecord) => void;
  readonly engine?: Pick<SimulatedReplicaOptions, "policy" | "keepsTbt">;
  readonly clients?: ClientBehaviour;
  readonly reportFaults?: ReportFaults;
  /** Replicas tell that each part of a step takes so many times as long as they found; 1 unless given. */
  readonly toldStepRatio?: number;
  /** Of every message between isolate, pool and replica; 2 ms unless given. */
  readonly delayMs?: number;
  readonly tellsDeadlines?: boolean;
  readonly timeouts?: GatewayTimeouts;
  /** Whether the gateway acts on late first tokens; it waits for its time-outs unless given. */
  readonly actsOnLateness?: boolean;
}

/** The name that all simulated replicas serve their model by. */
export const SIMULATED_MODEL_ID = ModelId.parse("simulated-model");

const DELAY_MS = 2;
/** What a gateway allows by default: the first token of any answer, and a gap that is no stall yet. */
const TIMEOUTS: GatewayTimeouts = { firstTokenMs: 60_000, gapMs: 30_000 };

/** A world with a gateway, its replicas, and clients; nothing happens in it until it is run. */
export class Simulation {
  readonly world: World;
  readonly gateway: Gateway;
  readonly links: readonly ReplicaLink[];
  readonly #clients: Clients;

  constructor(options: SimulationOptions) {
    const { delayMs = DELAY_MS, toldStepRatio = 1 } = options;
    const world = new World(options.seed);
    const gateway = new Gateway({
      world,
      tenants: options.tenants,
      createDispatcher: (listener) => options.createDispatcher(world, listener),
      hopMs: delayMs,
      tellsDeadlines: options.tellsDeadlines ?? true,
      timeouts: options.timeouts ?? TIMEOUTS,
      actsOnLateness: options.actsOnLateness ?? false,
    });
    const { dispatcher } = gateway;
    const listener = {
      events: gateway.events.bind(gateway),
      connected: dispatcher.connected.bind(dispatcher),
      reported: (replicaId: ReplicaId, report: ReplicaReport) =>
        dispatcher.reported(replicaId, withSteps(report, toldStepRatio)),
      disconnected: dispatcher.disconnected.bind(dispatcher),
    };
    this.links = options.profiles.map((profile, index) => {
      const isOurs = options.servers?.[index] === undefined;
      const replica = {
        ...(isOurs && options.engine),
        profile,
        endpointUrl: replicaUrl(index),
        modelId: SIMULATED_MODEL_ID,
      };
      const { reportFaults } = options;
      const link = new ReplicaLink({
        world,
        replica,
        listener,
        delayMs,
        ...(reportFaults !== undefined && { reportFaults }),
      });
      gateway.addLink(link);
      return link;
    });
    for (const [index, link] of this.links.entries()) {
      const server = options.servers?.[index];
      if (server === undefined) link.connect();
      else pollServer(server, { world, link, dispatcher });
    }
    this.world = world;
    this.gateway = gateway;
    this.#clients = new Clients({
      world,
      gateway,
      behaviour: options.clients ?? PATIENT_CLIENTS,
      onRecord: options.onRecord,
    });
  }

  /** Lets clients send these, in order of time. */
  send(arrivals: Iterable<ArrivalSpec>): void {
    this.#clients.send(arrivals[Symbol.iterator]());
  }

  /** Throws when a law of any of its parts is broken. Linear in all that is there. */
  checkInvariants(): void {
    this.gateway.checkInvariants();
    this.gateway.dispatcher.checkInvariants();
    for (const { replica } of this.links) replica.checkInvariants();
  }
}

/** The same report by a replica that is wrong about its steps, and whose steps since then do not tell it so. */
function withSteps(report: ReplicaReport, ratio: number): ReplicaReport {
  if (ratio === 1) return report;
  const { fixedMs, tokenMs, attendedPairMs, sequenceMs, kvTokenMs } = report.step;
  return {
    ...report,
    step: {
      fixedMs: fixedMs * ratio,
      tokenMs: tokenMs * ratio,
      attendedPairMs: attendedPairMs * ratio,
      sequenceMs: sequenceMs * ratio,
      kvTokenMs: kvTokenMs * ratio,
    },
  };
}

/** The URL of the first, second … replica; it is its id as well. */
export function replicaUrl(index: number): string {
  return `http://replica-${index}.example:8000`;
}

/** The tenants of a workload as a gateway's configuration has them, all of them streaming. */
export function tenantsOf(workload: Workload): SimulatedTenant[] {
  return workload.tenants.map(({ profile: { name, share, targets } }) => ({
    tenantId: TenantId.parse(name),
    modelId: SIMULATED_MODEL_ID,
    share,
    targets,
    isStreamed: true,
  }));
}
