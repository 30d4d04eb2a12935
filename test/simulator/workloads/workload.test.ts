import { expect, test } from "vitest";
import { seededRandom } from "../../../src/base/random.ts";
import type { ArrivalSpec } from "../../../simulator/workloads/arrival.ts";
import { SIX_TENANTS } from "../../../simulator/workloads/tenant-mix.ts";
import { PREFIX_GROUPS_MAX } from "../../../simulator/workloads/tenant-profile.ts";
import type { TenantTraffic, Workload } from "../../../simulator/workloads/workload.ts";
import { generateArrivals } from "../../../simulator/workloads/workload.ts";
import { tenantNamed } from "./tenant-named.ts";

const TENANTS: readonly TenantTraffic[] = SIX_TENANTS.map((profile, index) => ({
  profile,
  startsPerSecond: 5 + index,
  rateShapes: [],
}));
const WORKLOAD: Workload = { tenants: TENANTS };
const SESSIONS = {
  turnsMean: 4,
  turnsMax: 12,
  turnTokensMean: 80,
  thinkMeanMs: 5000,
  answerTokenMs: 20,
  promptTokensMax: 16_000,
};

const arrivals = (workload: Workload, seed = 1, untilMs = 60_000) => [
  ...generateArrivals(workload, seededRandom(seed), untilMs),
];
const ofTenant = (all: readonly ArrivalSpec[], index: number) =>
  all.filter(({ tenantIndex }) => tenantIndex === index);

/** The workload with its first tenant changed. */
function withFirst(change: Partial<TenantTraffic>): Workload {
  return {
    tenants: TENANTS.map((traffic, index) => (index === 0 ? { ...traffic, ...change } : traffic)),
  };
}

test("one seed gives one workload, another seed another", () => {
  expect(arrivals(WORKLOAD)).toEqual(arrivals(WORKLOAD));
  expect(arrivals(WORKLOAD, 2)).not.toEqual(arrivals(WORKLOAD));
});

test("requests come in order of time, before the end, with possible sizes", () => {
  const all = arrivals(WORKLOAD);
  for (const [index, arrival] of all.entries()) {
    expect(arrival.atMs).toBeGreaterThanOrEqual(all[index - 1]?.atMs ?? 0);
    expect(arrival.atMs).toBeLessThan(60_000);
    expect(arrival.promptTokens).toBeGreaterThanOrEqual(1);
    expect(arrival.prefixTokens).toBeLessThan(arrival.promptTokens);
    expect(arrival.outputTokens).toBeGreaterThanOrEqual(1);
    expect(Math.floor(arrival.prefixGroup / PREFIX_GROUPS_MAX)).toBe(arrival.tenantIndex);
  }
});

test("every tenant sends at its own rate", () => {
  const all = arrivals(WORKLOAD, 1, 400_000);
  for (const [index, { startsPerSecond, profile }] of TENANTS.entries()) {
    const cv = profile.intervals.kind === "poisson" ? 1 : profile.intervals.cv;
    const expected = startsPerSecond * 400;
    const deviation = Math.abs(ofTenant(all, index).length - expected);
    expect(deviation).toBeLessThan(5 * cv * Math.sqrt(expected));
  }
});

test("a change to one tenant leaves every other tenant's requests exactly as they were", () => {
  const before = arrivals(WORKLOAD);
  const after = arrivals(withFirst({ startsPerSecond: 40 }));
  expect(ofTenant(after, 0).length).toBeGreaterThan(3 * ofTenant(before, 0).length);
  for (const index of [1, 2, 3, 4, 5])
    expect(ofTenant(after, index)).toEqual(ofTenant(before, index));
});

/** What the first tenant asks for, whenever it does. */
const sizesOf = (workload: Workload) =>
  ofTenant(arrivals(workload), 0).map(({ promptTokens, outputTokens }) => [
    promptTokens,
    outputTokens,
  ]);

test("a tenant that sends more sends the same requests first", () => {
  const before = sizesOf(WORKLOAD);
  expect(sizesOf(withFirst({ startsPerSecond: 40 })).slice(0, before.length)).toEqual(before);
});

test("a tenant that gets burstier asks for the same requests", () => {
  const profile = { ...tenantNamed("chat"), intervals: { kind: "weibull", cv: 6 } as const };
  const before = sizesOf(WORKLOAD);
  const after = sizesOf(withFirst({ profile }));
  const count = Math.min(before.length, after.length);
  expect(count).toBeGreaterThan(50);
  expect(after.slice(0, count)).toEqual(before.slice(0, count));
});

test("more prefix groups than a tenant's range holds are a bug", () => {
  const profile = {
    ...tenantNamed("chat"),
    prefixes: { groups: PREFIX_GROUPS_MAX + 1, promptRatio: 0.5 },
  };
  expect(() => arrivals(withFirst({ profile }))).toThrow("prefix groups fit its range");
});

test("low prefix groups are popular and all groups are used", () => {
  const groups = ofTenant(arrivals(WORKLOAD, 1, 600_000), 0).map(({ prefixGroup }) => prefixGroup);
  const counts = new Map<number, number>();
  for (const group of groups) counts.set(group, (counts.get(group) ?? 0) + 1);
  expect(counts.size).toBe(40);
  // The root of 1/40: squared-uniform popularity gives the first group that part.
  expect(Math.abs((counts.get(0) ?? 0) / groups.length - Math.sqrt(1 / 40))).toBeLessThan(0.03);
});

test("changed prompts are longer from their instant on, at the same instants, within the bound", () => {
  const promptChange = { fromMs: 30_000, factor: 10, promptTokensMax: 8000 };
  const before = ofTenant(arrivals(WORKLOAD), 0);
  const after = ofTenant(arrivals(withFirst({ promptChange })), 0);
  expect(after.map(({ atMs }) => atMs)).toEqual(before.map(({ atMs }) => atMs));
  for (const [index, { atMs, promptTokens }] of after.entries()) {
    const was = before[index]?.promptTokens ?? 0;
    const expected = atMs < 30_000 ? was : Math.min(10 * was, Math.max(was, 8000));
    expect(promptTokens).toBe(expected);
  }
});

test("a client's limit cuts answers and is told", () => {
  const profile = { ...tenantNamed("chat"), outputTokensMax: 100 };
  const limited = ofTenant(arrivals(withFirst({ profile })), 0);
  expect(limited.every((arrival) => arrival.outputTokensMax === 100)).toBe(true);
  expect(Math.max(...limited.map(({ outputTokens }) => outputTokens))).toBe(100);
});

test("sessions of different tenants have different numbers, and their turns belong together", () => {
  const tenants = TENANTS.map((traffic) => ({
    ...traffic,
    profile: { ...traffic.profile, sessions: SESSIONS },
  }));
  const lastOf = new Map<number, ArrivalSpec>();
  let laterTurns = 0;
  for (const turn of arrivals({ tenants })) {
    const before = lastOf.get(turn.sessionId ?? -1);
    lastOf.set(turn.sessionId ?? -1, turn);
    if (before === undefined) continue;
    laterTurns += 1;
    expect(turn.tenantIndex).toBe(before.tenantIndex);
    expect(turn.promptTokens).toBeGreaterThan(before.promptTokens + before.outputTokens);
  }
  expect(lastOf.has(-1)).toBe(false);
  expect(laterTurns).toBeGreaterThan(1000);
});
