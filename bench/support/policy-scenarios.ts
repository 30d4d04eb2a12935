import type { ClientBehaviour } from "../../simulator/client.ts";
import { PATIENT_CLIENTS } from "../../simulator/client.ts";
import { slowed } from "../../simulator/hardware-profile.ts";
import { LASTS_MS, poolOf, smallPool, THREE_TENANTS } from "../../simulator/promises/small-pool.ts";
import { noisyNeighbour, priceMixDrift, steady } from "../../simulator/workloads/scenarios.ts";
import type { TenantProfile } from "../../simulator/workloads/tenant-profile.ts";
import type { RunLength, Scenario } from "./policy-run.ts";

const REPLICAS = 3;
const THREE_TRIES: ClientBehaviour = { ...PATIENT_CLIENTS, retriesMax: 3 };

export const LOADS = [0.5, 1, 1.5, 2, 3] as const;

const { profiles, basis } = smallPool(REPLICAS);
const POOL = { profiles, basis } as const;
const OF_THREE = { profiles: THREE_TENANTS };

/** The same load on every tenant's part. */
export function loadOf(loadRatio: number): Scenario {
  const workload = steady(basis, { loadRatio, ...OF_THREE });
  return { id: `load-${loadRatio}`, name: `load ${loadRatio}×`, ...POOL, workload };
}

/** What may go wrong, most of it while there is room to spare, and other pools. */
export function troubles(length: RunLength): Scenario[] {
  return [...neighbours(length), ...brokenPools(length), ...blindness(), ...retries(), ...sizes()];
}

function neighbours({ warmUpMs, measuredMs }: RunLength): Scenario[] {
  const burstUntilMs = warmUpMs + measuredMs / 3;
  return [
    {
      id: "noisy",
      name: "noisy neighbour: chat asks for 20 times its part, all others 0.7×",
      ...POOL,
      culprit: "chat",
      workload: noisyNeighbour(basis, { loadRatio: 0.7, tenant: "chat", factor: 20, ...OF_THREE }),
    },
    {
      id: "drift",
      name: "price-mix drift: tight's prompts become 10 times as long at the same rate, at 0.9×",
      ...POOL,
      culprit: "tight",
      workload: priceMixDrift(basis, {
        loadRatio: 0.9,
        tenant: "tight",
        fromMs: warmUpMs / 2,
        promptFactor: 10,
        ...OF_THREE,
      }),
    },
    {
      id: "burst",
      name: "burst and recovery: 3× for a third of the time, else 0.8×",
      ...POOL,
      workload: {
        tenants: steady(basis, { loadRatio: 0.8, ...OF_THREE }).tenants.map((traffic) => ({
          ...traffic,
          rateShapes: [
            { kind: "window" as const, fromMs: warmUpMs, untilMs: burstUntilMs, factor: 3.75 },
          ],
        })),
      },
    },
    {
      id: "prefixes",
      name: "prefix-heavy sessions: conversations of six turns behind shared beginnings, at 2× by price",
      ...POOL,
      workload: steady(basis, { loadRatio: 2, profiles: THREE_TENANTS.map(inSessions) }),
    },
  ];
}

function brokenPools({ warmUpMs }: RunLength): Scenario[] {
  const always = { atMs: warmUpMs, forMs: LASTS_MS } as const;
  const four = smallPool(4);
  const mixed = poolOf(
    four.profiles.map((profile, index) => (index < 2 ? profile : slowed(profile, 2.5))),
  );
  return [
    {
      id: "one-dies",
      name: "one of four dies, at 0.8×",
      ...four,
      workload: steady(four.basis, { loadRatio: 0.8, ...OF_THREE }),
      faults: [{ kind: "restarted", replicaIndex: 0, ...always }],
    },
    {
      id: "one-slow",
      name: "slow replica: one of three becomes 3 times slower, at 0.75×",
      ...POOL,
      workload: steady(basis, { loadRatio: 0.75, ...OF_THREE }),
      faults: [{ kind: "slow", ratio: 3, replicaIndex: 0, ...always }],
    },
    {
      id: "mixed",
      name: "mixed pool: two replicas 2.5 times slower than two others, at 0.9×",
      ...mixed,
      workload: steady(mixed.basis, { loadRatio: 0.9, ...OF_THREE }),
    },
  ];
}

/** Those who decide know less, or what is wrong. */
function blindness(): Scenario[] {
  const workload = steady(basis, { loadRatio: 1.5, ...OF_THREE });
  const late = { lostRatio: 0, lateRatio: 1, repeatedRatio: 0 } as const;
  return [
    {
      id: "reports-2s",
      name: "reports of the replicas come up to 2 s late, at 1.5×",
      ...POOL,
      workload,
      reportFaults: { ...late, lateMsMax: 2_000 },
    },
    {
      id: "told-0.7",
      name: "replicas tell that steps take 0.7 of what they do (Sluice alone reads that), at 1.5×",
      ...POOL,
      workload,
      toldStepRatio: 0.7,
    },
    {
      id: "told-2",
      name: "replicas tell that steps take twice as long as they do (Sluice alone reads that), at 1.5×",
      ...POOL,
      workload,
      toldStepRatio: 2,
    },
  ];
}

function retries(): Scenario[] {
  const workload = steady(basis, { loadRatio: 2, ...OF_THREE });
  return [
    {
      id: "retry-as-told",
      name: "clients come back when told, up to three times, at 2×",
      ...POOL,
      workload,
      clients: { ...THREE_TRIES, retry: "as-told" },
    },
    {
      id: "retry-at-once",
      name: "clients come back at once, up to three times, at 2×",
      ...POOL,
      workload,
      clients: { ...THREE_TRIES, retry: "at-once" },
    },
  ];
}

function sizes(): Scenario[] {
  return [8, 64, 512].map((replicas) => {
    const pool = smallPool(replicas);
    const workload = steady(pool.basis, { loadRatio: 2, ...OF_THREE });
    return { id: `pool-${replicas}`, name: `a pool of ${replicas}, at 2×`, ...pool, workload };
  });
}

/** The same tenant in conversations; `sessions` are cut to the size of the engine as its lengths are. */
function inSessions(profile: TenantProfile): TenantProfile {
  return {
    ...profile,
    prefixes: { groups: 4, promptRatio: 0.8 },
    sessions: {
      turnsMean: 6,
      turnsMax: 12,
      turnTokensMean: 30,
      thinkMeanMs: 1_000,
      answerTokenMs: 20,
      promptTokensMax: 2_000,
    },
  };
}
