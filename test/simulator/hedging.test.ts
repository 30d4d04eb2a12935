import { describe, expect, test } from "vitest";
import type { Fault } from "../../simulator/faults.ts";
import { scheduleFault } from "../../simulator/faults.ts";
import { livePoolOf } from "../../simulator/experiment.ts";
import { TINY } from "../../simulator/hardware-profile.ts";
import { InvariantWatch } from "../../simulator/invariants.ts";
import { PoolDispatcher } from "../../simulator/pool-dispatcher.ts";
import type { RequestRecord } from "../../simulator/request-record.ts";
import { Simulation, SIMULATED_MODEL_ID } from "../../simulator/simulation.ts";
import type { SimulatedTenant } from "../../simulator/simulated-tenant.ts";
import { TenantId } from "../../src/protocol/ids.ts";
import { firstTokenWithin } from "../support/pool-builders.ts";

const REPLICAS = 3;
const REQUESTS = 60;
const ARRIVALS_MS = 6_000;
const SEEDS = 20;
/** What eight hedges cost: all of them at once. */
const FULL_BUDGET = 400;

const TENANT: SimulatedTenant = {
  tenantId: TenantId.parse("tenant"),
  modelId: SIMULATED_MODEL_ID,
  share: { weight: 1, guaranteedRatio: 0.9, band: 0 },
  targets: firstTokenWithin(1_000),
  isStreamed: true,
};

/** A world whose replicas stand still for moments of any length, again and again, and then go on. */
function aHaltingWorld(seed: number, onRecord: (record: RequestRecord) => void) {
  let dispatcher: PoolDispatcher | undefined;
  const simulation = new Simulation({
    seed,
    profiles: Array.from({ length: REPLICAS }, () => TINY),
    tenants: [TENANT],
    createDispatcher: (world, listener) => {
      dispatcher = new PoolDispatcher({ pool: livePoolOf(REPLICAS) }, world, listener);
      return dispatcher;
    },
    onRecord,
    clients: { retry: "never", retriesMax: 0, leavesRatio: 0.1, leavesAfterMsMax: 1_000 },
    actsOnLateness: true,
  });
  if (dispatcher === undefined) throw new Error("A simulation has its dispatcher");
  const random = simulation.world.randomFor("halts");
  const faults = Array.from({ length: 12 }, (): Fault => {
    const atMs = random() * ARRIVALS_MS;
    const forMs = 300 + random() * 300;
    return { kind: "frozen", replicaIndex: Math.floor(random() * REPLICAS), atMs, forMs };
  });
  for (const fault of faults) {
    scheduleFault(fault, { world: simulation.world, links: simulation.links, dispatcher });
  }
  const arrivals = Array.from({ length: REQUESTS }, () => ({
    atMs: random() * ARRIVALS_MS,
    tenantIndex: 0,
    promptTokens: 1 + Math.floor(random() * 200),
    prefixTokens: 0,
    prefixGroup: 0,
    outputTokens: 1 + Math.floor(random() * 20),
  }));
  simulation.send(arrivals.toSorted((a, b) => a.atMs - b.atMs));
  return { simulation, dispatcher };
}

describe("requests that are hedged at any moment", () => {
  test("are answered once, whichever copy is the first, and leave nothing behind", () => {
    const sums = { sent: 0, won: 0, ended: 0 };
    for (let seed = 1; seed <= SEEDS; seed += 1) {
      const { simulation, dispatcher } = aHaltingWorld(seed, () => {
        sums.ended += 1;
      });
      const { state } = dispatcher.pool;
      state.hedgeBudget.savedDispatches = FULL_BUDGET;
      const watch = new InvariantWatch(simulation, dispatcher);
      simulation.world.afterEachEvent(() => watch.check());
      simulation.world.runToEnd({ endAtMs: 120_000, eventsMax: 1_000_000 });
      watch.checkIdle();
      expect(dispatcher.pool.state, `seed ${seed}`).toBe(state);
      sums.sent += state.totals.hedges.sent;
      sums.won += state.totals.hedgesWon;
    }
    expect(sums.ended).toBe(SEEDS * REQUESTS);
    // A law that nothing could have broken proves nothing: copies win, and copies lose.
    expect(sums.won).toBeGreaterThan(3);
    expect(sums.sent - sums.won).toBeGreaterThan(3);
  });
});
