import * as fc from "fast-check";
import { expect, test } from "vitest";
import { seededRandom } from "../../../src/base/random.ts";
import { heavyTail, zipfShares } from "../../../simulator/workloads/heavy-tail.ts";
import { generateArrivals } from "../../../simulator/workloads/workload.ts";
import { cvOf } from "./moments.ts";

const BASIS = { price: () => 1, capacityPerSecond: 2 };
const workloadOf = (tenants: number, seed = 1) =>
  heavyTail(BASIS, { loadRatio: 1, tenants }, seededRandom(seed));

test("Zipf's shares fall and sum to 1, and ten of a hundred tenants have most of the load", () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 2000 }),
      fc.double({ min: 0, max: 3, noNaN: true }),
      (count, exponent) => {
        const shares = zipfShares(count, exponent);
        expect(shares.reduce((sum, share) => sum + share, 0)).toBeCloseTo(1, 9);
        expect(shares).toEqual(shares.toSorted((a, b) => b - a));
      },
    ),
  );
  const topTen = zipfShares(100, 1.1).slice(0, 10);
  expect(topTen.reduce((sum, share) => sum + share, 0)).toBeCloseTo(0.6265, 4);
});

test("tenants have names of their own, shares that sum to what is committed, and CVs of 1 to 8", () => {
  const { tenants } = workloadOf(300);
  expect(new Set(tenants.map(({ profile }) => profile.name)).size).toBe(300);
  const guaranteed = tenants.reduce((sum, { profile }) => sum + profile.share.guaranteedRatio, 0);
  expect(guaranteed).toBeCloseTo(0.9, 9);
  const cvs = tenants
    .map(({ profile: { intervals } }) => (intervals.kind === "poisson" ? 1 : intervals.cv))
    .toSorted((a, b) => a - b);
  expect(cvs[0]).toBeGreaterThanOrEqual(1);
  expect(cvs[299]).toBeLessThanOrEqual(8);
  expect(cvs[150]).toBeLessThan(2.5);
  expect(cvs[270]).toBeGreaterThan(4);
});

test("the load is what was asked for in the long run", () => {
  const arrivals = [...generateArrivals(workloadOf(20), seededRandom(2), 40_000_000)];
  expect(Math.abs(arrivals.length / 80_000 - 1)).toBeLessThan(0.15);
});

test("a tenant peaks at ten times its mean and more", () => {
  const perTenSeconds = Array.from({ length: 2000 }, () => 0);
  for (const { atMs } of generateArrivals(workloadOf(1), seededRandom(4), 20_000_000)) {
    const index = Math.floor(atMs / 10_000);
    perTenSeconds[index] = (perTenSeconds[index] ?? 0) + 1;
  }
  expect(Math.max(...perTenSeconds)).toBeGreaterThan(200);
  expect(cvOf(perTenSeconds)).toBeGreaterThan(2);
});
