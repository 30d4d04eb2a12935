import { describe, expect, test } from "vitest";
import { copyState } from "../../../src/base/plain-state.ts";
import type { Random } from "../../../src/base/random.ts";
import { seededRandom } from "../../../src/base/random.ts";
import {
  Calibration,
  type CalibrationContext,
  type ForecastDimension,
  type PastForecast,
} from "../../../src/forecast/calibration.ts";
import { drawNormal } from "./support/draws.ts";

const EXCEEDANCE_RATIOS = { ttft: 0.003, tpot: 0.01 } as const;
const SAMPLE_GAP_MS = 50;
const CHAT: CalibrationContext = { profile: "llama/h200", tenantId: "chat", targetMs: 1000 };

/** What became of the n-th request. */
type Actual = (
  predictedMs: number,
  of: { readonly index: number; readonly random: Random; readonly tenant: number },
) => number;

interface StreamOptions {
  readonly seed: number;
  readonly samples: number;
  readonly dimension: ForecastDimension;
  readonly startMs?: number;
  /** Bounds that have been given before the first of them is found to hold or not. */
  readonly outstanding?: number;
}

/** Requests of five tenants whose forecasts fall into all bins; returns which bounds were exceeded. */
function stream(
  calibration: Calibration,
  actual: Actual,
  { seed, samples, dimension, startMs = 0, outstanding = 0 }: StreamOptions,
): boolean[] {
  const random = seededRandom(seed);
  const sent: (PastForecast & { readonly actualMs: number })[] = [];
  return Array.from({ length: samples + outstanding }, (_, index) => {
    const nowMs = startMs + index * SAMPLE_GAP_MS;
    if (index < samples) {
      const tenant = Math.floor(random() * 5);
      const aboutMs = [100, 350, 640, 900][Math.floor(random() * 4)] ?? 0;
      const predictedMs = aboutMs * (0.9 + 0.2 * random());
      const context = { ...CHAT, tenantId: `t${tenant}` };
      const boundMs = calibration.upperBoundMs(dimension, predictedMs, context, nowMs);
      const actualMs = Math.max(1, actual(predictedMs, { index, random, tenant }));
      sent.push({ ...context, predictedMs, boundMs, actualMs });
    }
    const sample = index < outstanding ? undefined : sent.shift();
    if (sample === undefined) return false;
    calibration.learn(dimension, sample, nowMs);
    return sample.actualMs > sample.boundMs;
  }).slice(outstanding);
}

const countOf = (flags: readonly boolean[]) => flags.filter(Boolean).length;

/** As often as it takes to change what is believed; far beyond the bound if `factor` is large. */
function learnTimes(
  calibration: Calibration,
  times: number,
  sample: CalibrationContext & { readonly predictedMs: number; readonly factor: number },
  startMs: number,
): number {
  const { predictedMs, factor, ...context } = sample;
  for (let index = 0; index < times; index++) {
    const nowMs = startMs + index * SAMPLE_GAP_MS;
    const boundMs = calibration.upperBoundMs("ttft", predictedMs, context, nowMs);
    const actualMs = factor * predictedMs;
    calibration.learn("ttft", { ...context, predictedMs, boundMs, actualMs }, nowMs);
  }
  return startMs + times * SAMPLE_GAP_MS;
}

/** Off by a factor whose log is given. */
const byFactor =
  (logOf: (of: Parameters<Actual>[1]) => number): Actual =>
  (predictedMs, of) =>
    predictedMs * Math.exp(logOf(of));

const spread = (meanLog: number, deviation: number) =>
  byFactor(({ random }) => meanLog + deviation * drawNormal(random));

const switching = (atIndex: number, beforeLog: number, afterLog: number) =>
  byFactor(
    ({ index, random }) => (index < atIndex ? beforeLog : afterLog) + 0.2 * drawNormal(random),
  );

/** The last tenant is off by so much more than the others. */
const spreadButOne = (excessLog: number, deviation: number) =>
  byFactor(({ tenant, random }) => (tenant === 4 ? excessLog : 0) + deviation * drawNormal(random));

const drawExponential = (random: Random, mean: number) => -mean * Math.log(1 - random());

const CROWD = 60;

/** Stalls that all meet who are there, now and then; beside them forecasts are almost exact. */
function stalled(stallRatio: number, meanMs: number): Actual {
  let stallMs = 0;
  return (predictedMs, { index, random }) => {
    if (index % CROWD === 0) stallMs = random() < stallRatio ? drawExponential(random, meanMs) : 0;
    return predictedMs * Math.exp(0.05 * drawNormal(random)) + stallMs;
  };
}

const STREAMS: Record<string, Actual> = {
  "right in the mean": spread(0, 0.2),
  "half of the truth": spread(Math.log(2), 0.2),
  "twice the truth": spread(-Math.log(2), 0.2),
  "all over the place": spread(0, 0.5),
  "almost exact": spread(0, 0.03),
  "now and then far off": byFactor(
    ({ random }) => 0.1 * drawNormal(random) + (random() < 0.001 ? 1.5 : 0),
  ),
  "too short by a wait that has no memory": (predictedMs, { random }) =>
    predictedMs + drawExponential(random, 60),
  "drifting to and fro": byFactor(
    ({ index, random }) => 0.4 * Math.sin(index / 1500) + 0.2 * drawNormal(random),
  ),
  "suddenly half of the truth": switching(8000, 0, Math.log(2)),
  "different for every tenant": byFactor(
    ({ tenant, random }) => 0.2 * (tenant - 2) + 0.15 * drawNormal(random),
  ),
};

/** Of how often bounds may be exceeded, how often those of each bin were after the first half of a stream. */
function excessOf(calibration: Calibration, actual: Actual, options: StreamOptions): number[] {
  const { samples, dimension, startMs = 0 } = options;
  stream(calibration, actual, { ...options, samples: samples / 2 });
  const learned = calibration.coverage();
  const restMs = startMs + (samples / 2) * SAMPLE_GAP_MS;
  stream(calibration, actual, {
    ...options,
    seed: -options.seed,
    samples: samples / 2,
    startMs: restMs,
  });
  const bins = calibration.coverage();
  expect(bins.map(({ bin }) => bin)).toEqual([0, 1, 2, 3]);
  return bins.map((bin, index) => {
    const inBin = bin.samples - (learned[index]?.samples ?? 0);
    expect(inBin).toBeGreaterThan(5000);
    const exceeded = bin.exceeded - (learned[index]?.exceeded ?? 0);
    return exceeded / inBin / EXCEEDANCE_RATIOS[dimension];
  });
}

/** Forecasts of up to a quarter of the target of a second are right, longer ones fall short by half. */
const halfShortBeyondAQuarter = (predictedMs: number) =>
  predictedMs < 250 ? predictedMs : 1.5 * predictedMs;

describe("Calibration", () => {
  test.for(Object.entries(STREAMS))(
    "where forecasts are %s, bounds of every bin come to be exceeded as often as they may be",
    ([, actual]) => {
      for (const [seed, dimension] of [
        [1, "ttft"],
        [2, "tpot"],
      ] as const) {
        const calibration = new Calibration();
        const options = { seed, samples: 44_000, dimension };
        for (const excess of excessOf(calibration, actual, options)) {
          expect(excess).toBeGreaterThan(0.5);
          expect(excess).toBeLessThan(1.5);
        }
        calibration.checkInvariants();
      }
    },
  );

  test("that they are learned from only when 60 more are out makes no difference", () => {
    for (const seed of [21, 22, 23]) {
      const calibration = new Calibration();
      const options = { seed, samples: 44_000, dimension: "tpot", outstanding: CROWD } as const;
      for (const excess of excessOf(calibration, spread(0.1, 0.1), options)) {
        expect(excess).toBeGreaterThan(0.5);
        expect(excess).toBeLessThan(1.5);
      }
    }
  });

  test.for([
    [0.03, 200],
    [0.3, 100],
  ] as const)(
    "where stalls meet 60 at once, in a share of %f of the time, bounds are exceeded as often as they may be by those that end one by one, and not much more by those that were sent before",
    ([stallRatio, meanMs]) => {
      for (const [outstanding, excessMax] of [
        [0, 1.5],
        [CROWD, 3.5],
      ] as const) {
        const calibration = new Calibration();
        const options = { seed: 24, samples: 160_000, dimension: "tpot", outstanding } as const;
        for (const excess of excessOf(calibration, stalled(stallRatio, meanMs), options)) {
          expect(excess).toBeGreaterThan(0.5);
          expect(excess).toBeLessThan(excessMax);
        }
      }
    },
  );

  test("bounds are no longer than they need to be", () => {
    const calibration = new Calibration();
    stream(calibration, spread(0, 0.2), {
      seed: 4,
      samples: 9000,
      dimension: "tpot",
    });
    const boundMs = calibration.upperBoundMs("tpot", 100, CHAT, 9000 * SAMPLE_GAP_MS);
    // 2.33 deviations are exceeded by 1 % of a normal distribution.
    expect(boundMs).toBeGreaterThan(100 * Math.exp(1.8 * 0.2));
    expect(boundMs).toBeLessThan(100 * Math.exp(3.2 * 0.2));
  });

  test("after everything became twice as slow, bounds hold as before once each bin has seen 50", () => {
    for (const seed of [5, 6, 7, 8, 9]) {
      const calibration = new Calibration();
      const dimension = "ttft";
      stream(calibration, spread(0, 0.2), {
        seed,
        samples: 6000,
        dimension,
      });
      const slow = stream(calibration, spread(Math.log(2), 0.2), {
        seed: seed + 100,
        samples: 1500,
        dimension,
        startMs: 6000 * SAMPLE_GAP_MS,
      });
      expect(countOf(slow.slice(0, 15))).toBeGreaterThan(0);
      expect(countOf(slow.slice(0, 500)) / 500).toBeLessThanOrEqual(0.08);
      expect(countOf(slow.slice(200)) / 1300).toBeLessThanOrEqual(0.005);
    }
  });

  test("after everything became twice as fast, bounds are short again within 500 samples of each bin", () => {
    const calibration = new Calibration();
    const residual = switching(3000, Math.log(2), 0);
    const options = { seed: 10, dimension: "tpot" } as const;
    stream(calibration, residual, { ...options, samples: 3000 });
    const slowMs = calibration.upperBoundMs("tpot", 300, CHAT, 3000 * SAMPLE_GAP_MS);
    const again = new Calibration();
    stream(again, residual, { ...options, samples: 5000 });
    const fastMs = again.upperBoundMs("tpot", 300, CHAT, 5000 * SAMPLE_GAP_MS);
    expect(fastMs / slowMs).toBeLessThan(0.65);
  });

  test("bounds of forecasts that lie between two bins lie between those bins' bounds", () => {
    const calibration = new Calibration();
    stream(calibration, halfShortBeyondAQuarter, { seed: 3, dimension: "tpot", samples: 4_000 });
    const nowMs = 4_000 * SAMPLE_GAP_MS;
    const overMs = (predictedMs: number) =>
      calibration.upperBoundMs("tpot", predictedMs, CHAT, nowMs) - predictedMs;
    let beforeMs = overMs(100);
    for (let predictedMs = 110; predictedMs < 900; predictedMs += 10) {
      const afterMs = overMs(predictedMs);
      expect(Math.abs(afterMs - beforeMs)).toBeLessThan(100);
      beforeMs = afterMs;
    }
  });

  test("begins with a bound somewhat above the forecast", () => {
    const calibration = new Calibration();
    expect(calibration.upperBoundMs("tpot", 100, CHAT, 0)).toBeGreaterThan(110);
    expect(calibration.upperBoundMs("tpot", 100, CHAT, 0)).toBeLessThan(150);
    expect(calibration.upperBoundMs("ttft", 100, CHAT, 0)).toBeGreaterThan(120);
    expect(calibration.upperBoundMs("ttft", 100, CHAT, 0)).toBeLessThan(250);
  });

  test("the shortest forecast has as much above it as those that are usual", () => {
    const calibration = new Calibration();
    stream(calibration, (predictedMs, { random }) => predictedMs + drawExponential(random, 50), {
      seed: 3,
      samples: 9000,
      dimension: "ttft",
    });
    const aboveMs = (predictedMs: number) =>
      calibration.upperBoundMs("ttft", predictedMs, CHAT, 9000 * SAMPLE_GAP_MS) - predictedMs;
    expect(aboveMs(1)).toBeGreaterThan(150);
    expect(aboveMs(1) / aboveMs(200)).toBeGreaterThan(0.7);
    expect(aboveMs(1) / aboveMs(200)).toBeLessThan(1);
  });

  test("in silence every bound comes back to where it began", () => {
    const calibration = new Calibration();
    const beforeMs = calibration.upperBoundMs("ttft", 300, CHAT, 0);
    const endMs = learnTimes(calibration, 500, { ...CHAT, predictedMs: 300, factor: 8 }, 0);
    const bounds = [0, 5000, 20_000, 40_000, 60_000, 120_000, 600_000].map((silentMs) =>
      calibration.upperBoundMs("ttft", 300, CHAT, endMs + silentMs),
    );
    expect(bounds[0]).toBeGreaterThan(4 * beforeMs);
    expect(bounds.toSorted((a, b) => b - a)).toEqual(bounds);
    expect(bounds.at(-2)).toBeLessThan(1.05 * beforeMs);
    expect(bounds.at(-1)).toBeCloseTo(beforeMs, 6);
  });

  test("a bursty tenant that is refused for its bound is admitted again, whatever others do", () => {
    for (const othersGoOn of [false, true]) {
      const calibration = new Calibration();
      let nowMs = 0;
      let refused = 0;
      for (let burst = 0; burst < 20; burst++) {
        // A burst is slow because it is one: four times its forecast, ten times at worst.
        const factor = burst % 2 === 0 ? 4 : 10;
        nowMs = learnTimes(calibration, 100, { ...CHAT, predictedMs: 200, factor }, nowMs);
        let waitedMs = 0;
        while (calibration.upperBoundMs("ttft", 200, CHAT, nowMs) > CHAT.targetMs) {
          refused += 1;
          waitedMs += 1000;
          nowMs += 1000;
          const other = { ...CHAT, tenantId: "other", predictedMs: 200, factor: 1 };
          if (othersGoOn) learnTimes(calibration, 20, other, nowMs);
          expect(waitedMs).toBeLessThan(60_000);
        }
      }
      expect(refused).toBeGreaterThan(0);
      calibration.checkInvariants();
    }
  });

  test("one tenant's bad forecasts cost another nothing once they have shown to be its own", () => {
    const calibration = new Calibration();
    stream(calibration, spreadButOne(0.35, 0.1), { seed: 11, samples: 9000, dimension: "tpot" });
    const nowMs = 9000 * SAMPLE_GAP_MS;
    const boundOf = (tenantId: string) =>
      calibration.upperBoundMs("tpot", 300, { ...CHAT, tenantId }, nowMs);
    expect(boundOf("t4") / boundOf("t0")).toBeGreaterThan(1.2);
    expect(boundOf("t0") / boundOf("t1")).toBeCloseTo(1, 1);
  });

  test("a tenant's own correction has a limit, and goes when the tenant is silent", () => {
    const calibration = new Calibration();
    stream(calibration, spreadButOne(2, 0), { seed: 12, samples: 3000, dimension: "tpot" });
    let nowMs = 3000 * SAMPLE_GAP_MS;
    // Errors are held against the forecast and three times the usual one.
    const offsetMs = 3 * (calibration.state.byProfile.get(CHAT.profile)?.tpot.usualMs ?? 0);
    const ratio = () =>
      (offsetMs + calibration.upperBoundMs("tpot", 300, { ...CHAT, tenantId: "t4" }, nowMs)) /
      (offsetMs + calibration.upperBoundMs("tpot", 300, { ...CHAT, tenantId: "new" }, nowMs));
    expect(offsetMs).toBeGreaterThan(1000);
    expect(ratio()).toBeGreaterThan(1.3);
    expect(ratio()).toBeLessThanOrEqual(1.5 + 1e-9);
    nowMs += 120_000;
    expect(ratio()).toBeLessThan(1.05);
  });

  test("a bin without samples believes what the others of its profile have seen, another profile does not", () => {
    const calibration = new Calibration();
    const nowMs = learnTimes(calibration, 500, { ...CHAT, predictedMs: 100, factor: 3 }, 0);
    const boundMs = (profile: string) =>
      calibration.upperBoundMs("ttft", 900, { ...CHAT, profile, tenantId: "new" }, nowMs);
    // All were 200 ms late.
    expect(boundMs(CHAT.profile)).toBeGreaterThan(1100);
    learnTimes(calibration, 1, { ...CHAT, tenantId: "new", predictedMs: 900, factor: 1 }, nowMs);
    expect(boundMs(CHAT.profile)).toBeGreaterThan(1100);
    const unlearned = new Calibration();
    const firstMs = unlearned.upperBoundMs("ttft", 900, CHAT, nowMs);
    expect(boundMs("llama/a100") / firstMs).toBeCloseTo(1, 1);
  });

  test("a bin that gets a sample now and then keeps to what the others of its profile see", () => {
    const calibration = new Calibration();
    const often = { ...CHAT, predictedMs: 100, factor: 3 };
    const seldom = { ...CHAT, tenantId: "seldom", predictedMs: 900, factor: 1100 / 900 };
    let exceeded = 0;
    let nowMs = 0;
    for (let minute = 0; minute < 60; minute++) {
      nowMs = learnTimes(calibration, 1200, often, nowMs);
      if (calibration.upperBoundMs("ttft", 900, seldom, nowMs) < 1100) exceeded += 1;
      learnTimes(calibration, 1, seldom, nowMs);
    }
    expect(exceeded).toBeLessThan(10);
  });

  test("a request that went before its value was known says something only if it had exceeded its bound", () => {
    const calibration = new Calibration();
    const sample = { ...CHAT, predictedMs: 300, boundMs: 500 };
    for (let i = 0; i < 100; i++) {
      calibration.learnCensored("ttft", { ...sample, atLeastMs: 499 }, 0);
    }
    expect(calibration.coverage()).toEqual([]);
    const beforeMs = calibration.upperBoundMs("ttft", 300, CHAT, 0);
    calibration.learnCensored("ttft", { ...sample, atLeastMs: 2000 }, 0);
    expect(calibration.coverage()).toEqual([
      { profile: CHAT.profile, dimension: "ttft", bin: 1, samples: 1, exceeded: 1 },
    ]);
    expect(calibration.upperBoundMs("ttft", 300, CHAT, 0)).toBeGreaterThan(beforeMs);
  });

  test("a request without a target is calibrated like one that is far from it", () => {
    const calibration = new Calibration();
    const sample = { ...CHAT, targetMs: Infinity, predictedMs: 300, boundMs: 500, actualMs: 310 };
    calibration.learn("tpot", sample, 0);
    expect(calibration.coverage().map(({ bin }) => bin)).toEqual([0]);
  });

  test("bounds stay finite and positive whatever was learned", () => {
    const calibration = new Calibration();
    for (const [index, factor] of [0, 1e-9, 1e9, 1, 0, 1e9].entries()) {
      const nowMs = learnTimes(
        calibration,
        200,
        { ...CHAT, predictedMs: 300, factor },
        index * 1e6,
      );
      const boundMs = calibration.upperBoundMs("ttft", 300, CHAT, nowMs);
      expect(boundMs).toBeGreaterThan(0);
      expect(boundMs).toBeLessThanOrEqual(16 * (300 + 300));
    }
  });

  test("remembers a bounded number of profiles and tenants", () => {
    const calibration = new Calibration({ profilesMax: 3, tenantsMax: 4 });
    for (let index = 0; index < 50; index++) {
      const context = { ...CHAT, profile: `p${index % 7}`, tenantId: `t${index}` };
      learnTimes(calibration, 1, { ...context, predictedMs: 300, factor: 1 }, index * 1000);
      calibration.checkInvariants();
    }
    expect([...calibration.state.byProfile.keys()]).toEqual(["p5", "p6", "p0"]);
    expect([...calibration.state.bias.ttft.keys()]).toEqual(["t46", "t47", "t48", "t49"]);
  });

  test("goes on from a copy of its state with the same answers", () => {
    const residual = spread(0, 0.3);
    const first = new Calibration();
    const half = { seed: 13, samples: 1000, dimension: "ttft" } as const;
    stream(first, residual, half);
    const second = new Calibration({}, copyState(first.state));
    const rest = { ...half, seed: 14, startMs: 1000 * SAMPLE_GAP_MS + 15_000 };
    expect(stream(second, residual, rest)).toEqual(stream(first, residual, rest));
    expect(second.state).toEqual(first.state);
  });
});
