import { assert } from "../src/base/assert.ts";
import type { Random } from "../src/base/random.ts";
import { TenantId } from "../src/protocol/ids.ts";
import type { SloTargets } from "../src/slo/targets.ts";
import type { ClientBehaviour } from "./client.ts";
import { livePoolOf } from "./experiment.ts";
import { drawFaults, scheduleFault } from "./faults.ts";
import { TINY } from "./hardware-profile.ts";
import { InvariantWatch } from "./invariants.ts";
import { PoolDispatcher } from "./pool-dispatcher.ts";
import type { RequestRecord } from "./request-record.ts";
import { SIMULATED_MODEL_ID, Simulation } from "./simulation.ts";
import type { SimulatedTenant } from "./simulated-tenant.ts";
import type { ArrivalSpec } from "./workloads/arrival.ts";
import { World } from "./world.ts";

/** How long requests arrive. */
const ARRIVALS_MS = 8_000;
/** Until when faults begin; each is over within `FAULT_MS_MAX`. */
const FAULTS_MS = 9_000;
const FAULT_MS_MAX = 4_000;
/** Leases that nobody settles end after this; the longest thing that a world must wait for. */
const LEASE_MS = 12_000;
const TIMEOUTS = { firstTokenMs: 3_000, gapMs: 2_000 };
/** By then a world is idle: faults, time-outs, leases, and retries after a minute each are over. */
const END_AT_MS = 170_000;
const EVENTS_MAX = 1_000_000;
const REQUESTS_MAX = 260;
const REPLICAS_MIN = 2;
const REPLICAS_MAX = 4;
const TENANTS = 3;

/**
 * A small world of one seed in which everything can go wrong that faults know of, while its laws are
 * checked after every event. `run` throws at the first event after which one is broken.
 */
export class ChaoticWorld {
  /** One line for each request that ended, in order: what two runs of a seed must agree on. */
  readonly history: string[] = [];
  readonly simulation: Simulation;
  readonly #dispatcher: PoolDispatcher;

  constructor(seed: number) {
    const random = new World(seed).randomFor("chaos");
    const replicas = REPLICAS_MIN + below(random, REPLICAS_MAX - REPLICAS_MIN + 1);
    let dispatcher: PoolDispatcher | undefined;
    this.simulation = new Simulation({
      seed,
      profiles: Array.from({ length: replicas }, () => TINY),
      tenants: Array.from({ length: TENANTS }, (_, index) => drawTenant(random, index)),
      createDispatcher: (world, listener) => {
        const pool = { ...livePoolOf(replicas), queueMax: below(random, 60) };
        const options = { pool, limits: { leaseMs: LEASE_MS } };
        dispatcher = new PoolDispatcher(options, world, listener);
        return dispatcher;
      },
      onRecord: (record) => this.history.push(toLine(record)),
      engine: { keepsTbt: random() < 0.5, policy: random() < 0.5 ? "fcfs" : "least-slack" },
      clients: drawClients(random),
      reportFaults: {
        lostRatio: random() * 0.3,
        lateRatio: random() * 0.3,
        lateMsMax: 3_000,
        repeatedRatio: random() * 0.2,
      },
      delayMs: random() * 10,
      timeouts: TIMEOUTS,
      actsOnLateness: random() < 0.7,
    });
    assert(dispatcher !== undefined, "a simulation has its dispatcher");
    this.#dispatcher = dispatcher;
    const { world, links } = this.simulation;
    const count = below(random, 16);
    const faults = { count, replicas, untilMs: FAULTS_MS, forMsMax: FAULT_MS_MAX };
    for (const fault of drawFaults(random, faults)) {
      scheduleFault(fault, { world, links, dispatcher });
    }
    this.simulation.send(drawArrivals(random));
  }

  run(): void {
    const { world } = this.simulation;
    const watch = new InvariantWatch(this.simulation, this.#dispatcher);
    world.afterEachEvent(() => watch.check());
    world.runToEnd({ endAtMs: END_AT_MS, eventsMax: EVENTS_MAX });
    watch.checkIdle();
  }
}

function below(random: Random, limit: number): number {
  return Math.floor(random() * limit);
}

const p99 = (limitMs: number) => ({ percentileRatio: 0.99, limitMs });

function drawTenant(random: Random, index: number): SimulatedTenant {
  const targets: SloTargets = {
    ttft: p99(150 + random() * 3_000),
    tpot: p99(20 + random() * 100),
    ...(random() < 0.3 && { e2e: p99(1_000 + random() * 8_000) }),
    ...(random() < 0.3 && { tbtMaxMs: 50 + random() * 500 }),
  };
  return {
    tenantId: TenantId.parse(`tenant-${index}`),
    modelId: SIMULATED_MODEL_ID,
    share: {
      weight: 1 + below(random, 4),
      guaranteedRatio: (0.9 * random()) / TENANTS,
      band: below(random, 3),
    },
    targets,
    isStreamed: random() < 0.8,
  };
}

function drawClients(random: Random): ClientBehaviour {
  const retries = ["never", "as-told", "at-once"] as const;
  return {
    retry: retries[below(random, retries.length)] ?? "never",
    retriesMax: below(random, 3),
    leavesRatio: random() * 0.3,
    leavesAfterMsMax: 3_000,
  };
}

/** Requests at any time, some of them all at once, of any size that fits. */
function drawArrivals(random: Random): ArrivalSpec[] {
  const burstAtMs = random() * ARRIVALS_MS;
  const requests = below(random, REQUESTS_MAX);
  const arrivals = Array.from({ length: requests }, (): ArrivalSpec => {
    const isInBurst = random() < 0.2;
    const promptTokens = 1 + below(random, random() < 0.1 ? 1_500 : 200);
    const outputTokens = 1 + below(random, random() < 0.1 ? 200 : 40);
    return {
      atMs: isInBurst ? burstAtMs : random() * ARRIVALS_MS,
      tenantIndex: below(random, TENANTS),
      promptTokens,
      prefixTokens: below(random, promptTokens),
      outputTokens,
      prefixGroup: below(random, 8),
      ...(random() < 0.5 && { outputTokensMax: outputTokens + below(random, 50) }),
    };
  });
  return arrivals.toSorted((a, b) => a.atMs - b.atMs);
}

function toLine(record: RequestRecord): string {
  const { endedAtMs, verdict, attainment, timeline, rejection } = record;
  const { outputTokens, ttftMs } = timeline;
  const words = [endedAtMs, verdict, rejection?.reason, attainment.kind, outputTokens, ttftMs];
  return words.join(" ");
}
