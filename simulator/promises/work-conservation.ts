import { livePoolOf } from "../experiment.ts";
import { PoolDispatcher } from "../pool-dispatcher.ts";
import { Simulation, tenantsOf } from "../simulation.ts";
import { generateArrivals } from "../workloads/workload.ts";
import type { Finding } from "./finding.ts";
import type { PromiseOptions } from "./run.ts";
import { beyondGuarantees } from "./sharing.ts";
import { smallPool } from "./small-pool.ts";

const SAMPLE_MS = 20;
/** Who has just come in waits for a few messages; so does a replica that has just become empty. */
const WAITING_MIN = 10;
const RELEARN_MS = 2_500;
const EVENTS_MAX = 10_000_000;

const { profiles } = smallPool();

/** Invariant 6 of the pool: nobody waits beside an empty replica, also where nobody is guaranteed anything. */
export function leavesNoReplicaEmpty({ seeds, measuredMs, mechanisms }: PromiseOptions): Finding[] {
  let samples = 0;
  let idle = 0;
  const pool = {
    pool: livePoolOf(profiles.length),
    ...(mechanisms !== undefined && { mechanisms }),
  };
  const workload = beyondGuarantees();
  for (let seed = 1; seed <= seeds; seed += 1) {
    let dispatcher: PoolDispatcher | undefined;
    const simulation = new Simulation({
      seed,
      profiles,
      tenants: tenantsOf(workload),
      createDispatcher: (world, listener) => {
        dispatcher = new PoolDispatcher(pool, world, listener);
        return dispatcher;
      },
      onRecord: () => undefined,
    });
    const { world } = simulation;
    simulation.send(generateArrivals(workload, world.randomFor("workload"), measuredMs));
    for (let atMs = RELEARN_MS; atMs < measuredMs; atMs += SAMPLE_MS) {
      world.runToEnd({ endAtMs: atMs, eventsMax: EVENTS_MAX });
      const status = dispatcher?.status;
      if (status === undefined || status.queued < WAITING_MIN) continue;
      samples += 1;
      if (status.replicas.some(({ outstanding }) => outstanding === 0)) idle += 1;
    }
  }
  return [
    { what: "instants at which many wait", value: samples, atLeast: 50 * seeds },
    { what: "of these with a replica that is empty", value: idle / samples, atMost: 0.01 },
  ];
}
