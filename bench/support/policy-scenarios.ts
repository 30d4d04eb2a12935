import type { ClientBehaviour } from "../../simulator/client.ts";
import { PATIENT_CLIENTS } from "../../simulator/client.ts";
import { slowed } from "../../simulator/hardware-profile.ts";
import { loadBasisOf } from "../../simulator/experiment.ts";
import { smallPool, THREE_TENANTS } from "../../simulator/promises/small-pool.ts";
import type { LoadBasis } from "../../simulator/workloads/scenarios.ts";
import {
  noisyNeighbour,
  priceMixDrift,
  requestRates,
  steady,
} from "../../simulator/workloads/scenarios.ts";
import type { RunLength, Scenario } from "./policy-run.ts";

const REPLICAS = 3;
/** Longer than any run. */
const LASTS_MS = 3_600_000;
const WHO_RETRY: ClientBehaviour = { ...PATIENT_CLIENTS, retriesMax: 3, retry: "as-told" };

export const LOADS = [1, 1.5, 2, 3] as const;

const { profiles, basis } = smallPool(REPLICAS);
const profileOf = { profiles: THREE_TENANTS };

/** Requests a millisecond that each tenant's weight's part of the pool carries: what an oracle limits them to. */
export const EXACT_RATES = requestRates(basis, THREE_TENANTS);

/** The same load on every tenant's part. */
export function loadOf(loadRatio: number): Scenario {
  const workload = steady(basis, { loadRatio, ...profileOf });
  return { name: `load ${loadRatio}×`, profiles, workload };
}

/** What may go wrong, most of it while there is room to spare. */
export function troubles({ warmUpMs, measuredMs }: RunLength): Scenario[] {
  const always = { atMs: warmUpMs, forMs: LASTS_MS } as const;
  const four = smallPool(4);
  const slow = four.profiles.map((profile, index) => (index < 2 ? profile : slowed(profile, 2.5)));
  const mixedBasis: LoadBasis = {
    ...loadBasisOf(slow),
    capacityPerSecond:
      (loadBasisOf(slow).capacityPerSecond * four.basis.capacityPerSecond) /
      loadBasisOf(four.profiles).capacityPerSecond,
  };
  const burstUntilMs = warmUpMs + measuredMs / 3;
  return [
    {
      name: "noisy neighbour: chat asks for 20 times its part, all others 0.7×",
      profiles,
      culprit: "chat",
      workload: noisyNeighbour(basis, { loadRatio: 0.7, tenant: "chat", factor: 20, ...profileOf }),
    },
    {
      name: "price-mix drift: tight's prompts become 10 times as long at the same rate, at 0.9×",
      profiles,
      culprit: "tight",
      workload: priceMixDrift(basis, {
        loadRatio: 0.9,
        tenant: "tight",
        fromMs: warmUpMs / 2,
        promptFactor: 10,
        ...profileOf,
      }),
    },
    {
      name: "burst and recovery: 3× for a third of the time, else 0.8×",
      profiles,
      workload: {
        tenants: steady(basis, { loadRatio: 0.8, ...profileOf }).tenants.map((traffic) => ({
          ...traffic,
          rateShapes: [
            { kind: "window" as const, fromMs: warmUpMs, untilMs: burstUntilMs, factor: 3.75 },
          ],
        })),
      },
    },
    {
      name: "slow replica: one of three becomes 3 times slower, at 0.75×",
      profiles,
      workload: steady(basis, { loadRatio: 0.75, ...profileOf }),
      faults: [{ kind: "slow", ratio: 3, replicaIndex: 0, ...always }],
    },
    {
      name: "mixed pool: two replicas 2.5 times slower than two others, at 0.9×",
      profiles: slow,
      workload: steady(mixedBasis, { loadRatio: 0.9, ...profileOf }),
    },
    {
      name: "one of four dies, at 0.8×",
      profiles: four.profiles,
      workload: steady(four.basis, { loadRatio: 0.8, ...profileOf }),
      faults: [{ kind: "restarted", replicaIndex: 0, ...always }],
    },
    {
      name: "clients retry as told, up to three times, at 2×",
      profiles,
      workload: steady(basis, { loadRatio: 2, ...profileOf }),
      clients: WHO_RETRY,
    },
  ];
}
