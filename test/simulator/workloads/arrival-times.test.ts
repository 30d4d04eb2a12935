import { expect, test } from "vitest";
import { seededRandom } from "../../../src/base/random.ts";
import type { ArrivalProcess } from "../../../simulator/workloads/arrival-times.ts";
import { arrivalTimes } from "../../../simulator/workloads/arrival-times.ts";
import { cvOf } from "./moments.ts";

const POISSON: ArrivalProcess = {
  meanPerSecond: 50,
  intervals: { kind: "poisson" },
  rateShapes: [],
};

function timesOf(process: ArrivalProcess, untilMs: number, seed = 1): number[] {
  return [...arrivalTimes(process, seededRandom(seed), untilMs)];
}

test("instants rise, stay below the end and come at the mean rate", () => {
  const times = timesOf(POISSON, 400_000);
  expect(times.every((time, index) => time > (times[index - 1] ?? 0) && time < 400_000)).toBe(true);
  // 20,000 expected: five standard deviations are 707.
  expect(Math.abs(times.length - 20_000)).toBeLessThan(707);
});

test("gaps keep their CV at a steady rate", () => {
  const times = timesOf({ ...POISSON, intervals: { kind: "gamma", cv: 4 } }, 4_000_000);
  expect(cvOf(times.slice(1).map((time, index) => time - (times[index] ?? 0)))).toBeCloseTo(4, 0);
});

test("a window has as many requests as its factor says, and the time around it as before", () => {
  const window = { kind: "window", fromMs: 100_000, untilMs: 200_000, factor: 6 } as const;
  const times = timesOf({ ...POISSON, rateShapes: [window] }, 300_000);
  const inside = times.filter((time) => time >= 100_000 && time < 200_000).length;
  expect(Math.abs(inside - 30_000)).toBeLessThan(5 * Math.sqrt(30_000));
  expect(Math.abs(times.length - inside - 10_000)).toBeLessThan(5 * Math.sqrt(10_000));
});

test("a burst cuts the gap short in which it begins", () => {
  // Ten minutes between requests: drawn before the burst, the first gap would outlast it.
  const rare = { ...POISSON, meanPerSecond: 1 / 600 };
  const window = { kind: "window", fromMs: 1000, untilMs: 2000, factor: 60_000 } as const;
  const seeds = Array.from({ length: 50 }, (_, seed) => seed);
  const inside = seeds.map((seed) => timesOf({ ...rare, rateShapes: [window] }, 2000, seed).length);
  expect(Math.min(...inside)).toBeGreaterThan(50);
});

test("a rate that moves many times within one gap still has its mean", () => {
  const restless = { kind: "daily", periodMs: 640, swingRatio: 1 } as const;
  const times = timesOf({ ...POISSON, meanPerSecond: 5, rateShapes: [restless] }, 2_000_000);
  expect(Math.abs(times.length - 10_000)).toBeLessThan(500);
});

test("a tenant that sends more has its peaks at the same instants", () => {
  // All requests fall into peaks, so that instants betray where these lie.
  const rateShapes = [{ kind: "peaks", factor: 20, insideRatio: 1, peakMeanMs: 5000 }] as const;
  const secondsOf = (meanPerSecond: number) =>
    new Set(
      timesOf({ ...POISSON, meanPerSecond, rateShapes }, 4_000_000).map((time) => time >> 10),
    );
  const often = secondsOf(5);
  const seldom = [...secondsOf(0.5)];
  expect(seldom.length).toBeGreaterThan(50);
  expect(seldom.filter((second) => often.has(second)).length / seldom.length).toBeGreaterThan(0.98);
});

test("nothing comes at a rate of 0, be it the mean or a factor", () => {
  expect(timesOf({ ...POISSON, meanPerSecond: 0 }, 1000)).toEqual([]);
  const over = {
    kind: "steps",
    steps: [
      { untilMs: 500, factor: 1 },
      { untilMs: Infinity, factor: 0 },
    ],
  } as const;
  const times = timesOf({ ...POISSON, rateShapes: [over] }, 1_000_000);
  expect(times.length).toBeGreaterThan(5);
  expect(times.every((time) => time < 500)).toBe(true);
});

test("a pause of rate 0 stops requests only while it lasts", () => {
  const pause = { kind: "window", fromMs: 1000, untilMs: 2000, factor: 0 } as const;
  const times = timesOf({ ...POISSON, rateShapes: [pause] }, 3000);
  expect(times.some((time) => time < 1000)).toBe(true);
  expect(times.some((time) => time >= 1000 && time < 2000)).toBe(false);
  expect(times.some((time) => time >= 2000)).toBe(true);
});
