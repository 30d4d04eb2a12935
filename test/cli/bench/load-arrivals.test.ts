import { describe, expect, test } from "vitest";
import { drawArrivals, playTrace } from "../../../cli/bench/load-arrivals.ts";
import type { LoadArrival, LoadTenant } from "../../../cli/bench/load-tenant.ts";
import { promptText } from "../../../cli/bench/prompt-text.ts";

const TENANT: LoadTenant = {
  name: "a",
  token: undefined,
  className: undefined,
  weight: 1,
  burstiness: 1,
  promptTokens: { min: 100, max: 300 },
  outputTokens: { min: 1, max: 8 },
  goals: {},
};
const DRAW = { seed: 7, ratePerSecond: 20, durationMs: 600_000 };

const gapsOf = (arrivals: readonly LoadArrival[]) =>
  arrivals.slice(1).map(({ atMs }, index) => atMs - (arrivals[index]?.atMs ?? 0));

function variationOf(gaps: readonly number[]): number {
  const mean = gaps.reduce((sum, gap) => sum + gap, 0) / gaps.length;
  const variance = gaps.reduce((sum, gap) => sum + (gap - mean) ** 2, 0) / gaps.length;
  return Math.sqrt(variance) / mean;
}

/** What the first tenant asks for. */
const ownOf = (tenants: readonly LoadTenant[], ratePerSecond: number) =>
  [...drawArrivals(tenants, { ...DRAW, ratePerSecond })]
    .filter(({ tenantIndex }) => tenantIndex === 0)
    .map(({ atMs, promptTokens, outputTokens }) => [atMs, promptTokens, outputTokens]);

const blocks = (ids: readonly number[]) => ({ promptBlocks: { blockTokens: 16, ids } });

describe("drawArrivals()", () => {
  test("draws the same load for a seed, and another one for another", () => {
    const [first, second] = [0, 1].map(() => [...drawArrivals([TENANT], DRAW)]);
    expect(first).toEqual(second);
    expect([...drawArrivals([TENANT], { ...DRAW, seed: 8 })]).not.toEqual(first);
  });

  test("sends at the rate that was asked for, in order, with lengths between their bounds", () => {
    const arrivals = [...drawArrivals([TENANT], DRAW)];
    expect(Math.abs(arrivals.length - 12_000)).toBeLessThan(500);
    expect(arrivals).toEqual(arrivals.toSorted((a, b) => a.atMs - b.atMs));
    expect(arrivals.every(({ index }, place) => index === place)).toBe(true);
    const lengths = arrivals.map(({ promptTokens }) => promptTokens);
    expect([Math.min(...lengths), Math.max(...lengths)]).toEqual([100, 300]);
  });

  test.each([
    [1, 1],
    [0.25, 2],
    [4, 0.5],
    [Infinity, 0],
  ])("spaces requests of burstiness %d with a variation of %d", (burstiness, variation) => {
    const arrivals = [...drawArrivals([{ ...TENANT, burstiness }], DRAW)];
    expect(Math.abs(variationOf(gapsOf(arrivals)) - variation)).toBeLessThan(0.12);
  });

  test("leaves one tenant as it was when another asks for more", () => {
    const other = { ...TENANT, name: "b", weight: 1 };
    expect(ownOf([TENANT, { ...other, weight: 3 }], 40)).toEqual(ownOf([TENANT, other], 20));
  });
});

describe("playTrace()", () => {
  const row = { prefixTokens: 0, prefixGroup: 0, outputTokens: 5 };
  const recorded = [
    { ...row, atMs: 0, tenantIndex: 0, promptTokens: 40 },
    { ...row, atMs: 2_000, tenantIndex: 5, promptTokens: 50 },
    { ...row, atMs: 9_000, tenantIndex: 1, promptTokens: 60 },
  ];

  test("keeps its times at another speed, and ends where the load ends", () => {
    const options = { speed: 2, durationMs: 4_000 };
    const played = [...playTrace(recorded, [TENANT, TENANT], options)];
    expect(played.map(({ atMs, tenantIndex }) => [atMs, tenantIndex])).toEqual([
      [0, 0],
      [1_000, 1],
    ]);
  });

  test("lets prompts begin alike exactly as far as the trace says", () => {
    const base = { atMs: 0, tenantIndex: 0, promptTokens: 48, outputTokens: 1 };
    const measure = { tokensPerWord: 1, overheadTokens: 0, isMeasured: true };
    const texts = [
      { ...base, index: 0, ...blocks([1, 2, 3]) },
      { ...base, index: 1, ...blocks([1, 2, 4]) },
    ].map((arrival) => promptText(arrival, measure, 1).split(" "));
    const [one = [], other = []] = texts;
    expect(one.slice(0, 32)).toEqual(other.slice(0, 32));
    expect(one.slice(32)).not.toEqual(other.slice(32));
    const lone = [0, 1].map((index) => promptText({ ...base, index }, measure, 1).split(" "));
    expect(lone[0]?.slice(0, 4)).not.toEqual(lone[1]?.slice(0, 4));
  });
});
