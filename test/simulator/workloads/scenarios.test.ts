import { expect, test } from "vitest";
import type { ArrivalSpec } from "../../../simulator/workloads/arrival.ts";
import type { LoadBasis } from "../../../simulator/workloads/scenarios.ts";
import {
  burst,
  noisyNeighbour,
  poisoned,
  priceMixDrift,
  priceOfStart,
  requestRates,
  runawayAnswers,
  steady,
} from "../../../simulator/workloads/scenarios.ts";
import { COMMITTED_RATIO, SIX_TENANTS } from "../../../simulator/workloads/tenant-mix.ts";
import type { Workload } from "../../../simulator/workloads/workload.ts";
import { generateArrivals } from "../../../simulator/workloads/workload.ts";
import { seededRandom } from "../../../src/base/random.ts";
import { tenantNamed } from "./tenant-named.ts";

/** Llama 3.1 8B in FP8 on an H200, in GPU-ms at a batch of 96, with half of the prefixes cached. */
const BASIS: LoadBasis = {
  price: ({ promptTokens, prefixTokens, outputTokens }) => {
    const cachedTokens = prefixTokens / 2;
    const prefillMs =
      0.014_11 * (promptTokens - cachedTokens) + 4.92e-7 * (promptTokens ** 2 - cachedTokens ** 2);
    return prefillMs + outputTokens * (0.0655 + 3.198e-5 * (promptTokens + outputTokens / 2));
  },
  capacityPerSecond: 8000,
};

/** GPU-ms per second that each tenant really asks for between two instants. */
function pricePerSecond(workload: Workload, fromMs: number, untilMs: number): number[] {
  const prices = workload.tenants.map(() => 0);
  for (const arrival of generateArrivals(workload, seededRandom(3), untilMs)) {
    if (arrival.atMs < fromMs) continue;
    prices[arrival.tenantIndex] = (prices[arrival.tenantIndex] ?? 0) + BASIS.price(arrival);
  }
  return prices.map((price) => (price * 1000) / (untilMs - fromMs));
}

const requestsPerSecond = (workload: Workload) =>
  workload.tenants.map(({ startsPerSecond }) => startsPerSecond);

test("the six tenants are promised nine tenths of the pool by weight", () => {
  const guaranteed = SIX_TENANTS.map(({ share }) => share.guaranteedRatio);
  expect(guaranteed.reduce((sum, ratio) => sum + ratio, 0)).toBeCloseTo(COMMITTED_RATIO, 9);
  expect(SIX_TENANTS.map(({ share }) => share.weight)).toEqual([2, 2, 1, 1, 1, 1]);
});

test("a steady load of 1 asks for the whole capacity, each tenant for its weight's part", () => {
  const asked = pricePerSecond(steady(BASIS, { loadRatio: 1 }), 0, 300_000);
  for (const [index, { share }] of SIX_TENANTS.entries()) {
    // The burstiest tenant, of CV 4, still has a standard error of 6 % over five minutes.
    expect(Math.abs((asked[index] ?? 0) / (1000 * share.weight) - 1)).toBeLessThan(0.2);
  }
});

test("a tenant's rate is what its part of the capacity carries of its requests", () => {
  const rates = requestRates(BASIS, SIX_TENANTS);
  expect(rates.size).toBe(SIX_TENANTS.length);
  for (const profile of SIX_TENANTS) {
    const costPerMs = (rates.get(profile.name) ?? 0) * priceOfStart(BASIS, profile);
    expect(costPerMs).toBeCloseTo(profile.share.weight, 9);
  }
});

test("with the reference prices a load of 1 is about 175 requests a second", () => {
  const total = requestsPerSecond(steady(BASIS, { loadRatio: 1 })).reduce(
    (sum, rate) => sum + rate,
    0,
  );
  expect(Math.abs(total - 175)).toBeLessThan(2);
});

test("rates are proportional to the load", () => {
  const half = requestsPerSecond(steady(BASIS, { loadRatio: 0.5 }));
  const triple = requestsPerSecond(steady(BASIS, { loadRatio: 3 }));
  for (const [index, rate] of half.entries()) expect(triple[index]).toBeCloseTo(6 * rate, 9);
});

test("a noisy neighbour multiplies its own rate and nobody else's", () => {
  const quiet = requestsPerSecond(steady(BASIS, { loadRatio: 0.7 }));
  const noisy = requestsPerSecond(
    noisyNeighbour(BASIS, { loadRatio: 0.7, tenant: "code", factor: 8 }),
  );
  for (const [index, { name }] of SIX_TENANTS.entries()) {
    expect(noisy[index]).toBeCloseTo((quiet[index] ?? 0) * (name === "code" ? 8 : 1), 9);
  }
});

test("a burst multiplies one tenant's load while it lasts", () => {
  const options = { loadRatio: 0.8, tenant: "chat", fromMs: 60_000, untilMs: 90_000, factor: 6 };
  const workload = burst(BASIS, options);
  const [before = 0] = pricePerSecond(workload, 0, 60_000);
  const [during = 0] = pricePerSecond(workload, 60_000, 90_000);
  const [after = 0] = pricePerSecond(workload, 90_000, 150_000);
  expect(Math.abs(during / 9600 - 1)).toBeLessThan(0.15);
  expect(Math.abs(before / 1600 - 1)).toBeLessThan(0.15);
  expect(Math.abs(after / 1600 - 1)).toBeLessThan(0.15);
});

test("price-mix drift keeps the rate of requests and multiplies their price", () => {
  const drift = { loadRatio: 0.9, tenant: "chat-tight", fromMs: 120_000, promptFactor: 10 };
  const workload = priceMixDrift(BASIS, drift);
  expect(requestsPerSecond(workload)).toEqual(requestsPerSecond(steady(BASIS, { loadRatio: 0.9 })));
  const [chatBefore = 0, tightBefore = 0] = pricePerSecond(workload, 0, 120_000);
  const [chatAfter = 0, tightAfter = 0] = pricePerSecond(workload, 120_000, 240_000);
  expect(Math.abs(chatAfter / chatBefore - 1)).toBeLessThan(0.15);
  expect(tightAfter / tightBefore).toBeGreaterThan(2);
});

const TROUBLE = { loadRatio: 0.9, tenant: "chat", fromMs: 10_000, untilMs: 20_000 } as const;

const arrivalsOf = (workload: Workload) => [...generateArrivals(workload, seededRandom(3), 30_000)];

/** The steady requests, where all of one tenant's in a window have `change`. */
function inTrouble(change: (usual: ArrivalSpec) => Partial<ArrivalSpec>): ArrivalSpec[] {
  const { fromMs, untilMs } = TROUBLE;
  const usual = arrivalsOf(steady(BASIS, { loadRatio: 0.9 }));
  const isChanged = ({ tenantIndex, atMs }: ArrivalSpec) =>
    tenantIndex === 0 && atMs >= fromMs && atMs < untilMs;
  expect(usual.filter(isChanged).length).toBeGreaterThan(10);
  return usual.map((arrival) =>
    isChanged(arrival) ? { ...arrival, ...change(arrival) } : arrival,
  );
}

test("answers that find no end are all of a tenant's own, in a window, and nothing foretells them", () => {
  const runaway = arrivalsOf(runawayAnswers(BASIS, { ...TROUBLE, factor: 4 }));
  expect(runaway).toEqual(inTrouble(({ outputTokens }) => ({ outputTokens: 4 * outputTokens })));
});

test("poison is in all of a tenant's requests, in a window, and in no others", () => {
  expect(arrivalsOf(poisoned(BASIS, TROUBLE))).toEqual(inTrouble(() => ({ isPoisonous: true })));
});

test("a tenant with sessions asks for its part as well", () => {
  const sessions = {
    turnsMean: 4,
    turnsMax: 12,
    turnTokensMean: 80,
    thinkMeanMs: 2000,
    answerTokenMs: 10,
    promptTokensMax: 16_000,
  };
  const profiles = [{ ...tenantNamed("chat"), sessions }];
  const workload = steady(BASIS, { loadRatio: 1, profiles });
  // Only after the first sessions are over is the load what it will be.
  const [asked = 0] = pricePerSecond(workload, 200_000, 500_000);
  expect(Math.abs(asked / 8000 - 1)).toBeLessThan(0.08);
});

test("a scenario for a tenant who is not there is a bug", () => {
  expect(() => noisyNeighbour(BASIS, { loadRatio: 1, tenant: "nobody", factor: 2 })).toThrow(
    "the tenant nobody",
  );
});
