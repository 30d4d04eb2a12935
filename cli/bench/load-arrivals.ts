import { assert } from "../../src/base/assert.ts";
import type { Random } from "../../src/base/random.ts";
import { drawSeed, seededRandom } from "../../src/base/random.ts";
import type { ArrivalSpec } from "../../simulator/workloads/arrival.ts";
import { arrivalTimes } from "../../simulator/workloads/arrival-times.ts";
import { intervalsOf } from "../../simulator/workloads/intervals.ts";
import { TimeMerge } from "../../simulator/workloads/time-merge.ts";
import type { LoadArrival, LoadTenant } from "./load-tenant.ts";
import type { TokenRange } from "./token-range.ts";

interface DrawOptions {
  readonly seed: number;
  /** Of all tenants together. */
  readonly ratePerSecond: number;
  readonly durationMs: number;
}

/**
 * Draws the requests of a load, in order of time and one at a time. Each tenant has sequences of its own,
 * so that one that asks for something else leaves the others as they were.
 */
export function* drawArrivals(
  tenants: readonly LoadTenant[],
  { seed, ratePerSecond, durationMs }: DrawOptions,
): Generator<LoadArrival> {
  const random = seededRandom(seed);
  const weightSum = tenants.reduce((sum, { weight }) => sum + weight, 0);
  const merge = new TimeMerge<Omit<LoadArrival, "index">>();
  for (const [tenantIndex, tenant] of tenants.entries()) {
    const own = { tenant, tenantIndex, perSecond: (ratePerSecond * tenant.weight) / weightSum };
    merge.add(tenantArrivals(own, durationMs, seededRandom(drawSeed(random))));
  }
  let index = 0;
  for (let next = merge.take(durationMs); next !== undefined; next = merge.take(durationMs)) {
    yield { index, ...next };
    index += 1;
  }
}

interface PlayOptions {
  /** How much faster than it was recorded. */
  readonly speed: number;
  readonly durationMs: number;
}

/** Plays a recorded trace: its n-th client is the n-th tenant, beginning anew where there are more clients. */
export function* playTrace(
  arrivals: Iterable<ArrivalSpec>,
  tenants: readonly LoadTenant[],
  { speed, durationMs }: PlayOptions,
): Generator<LoadArrival> {
  let index = 0;
  for (const { atMs, tenantIndex, promptTokens, outputTokens, promptBlocks } of arrivals) {
    if (atMs / speed >= durationMs) return;
    yield {
      index,
      atMs: atMs / speed,
      tenantIndex: tenantIndex % tenants.length,
      promptTokens,
      outputTokens,
      ...(promptBlocks !== undefined && { promptBlocks }),
    };
    index += 1;
  }
}

function* tenantArrivals(
  own: { readonly tenant: LoadTenant; readonly tenantIndex: number; readonly perSecond: number },
  durationMs: number,
  random: Random,
): Generator<Omit<LoadArrival, "index">, undefined> {
  const { tenant, tenantIndex, perSecond } = own;
  const times = seededRandom(drawSeed(random));
  for (const atMs of instants(perSecond, tenant.burstiness, times, durationMs)) {
    const promptTokens = drawFrom(tenant.promptTokens, random);
    yield { atMs, tenantIndex, promptTokens, outputTokens: drawFrom(tenant.outputTokens, random) };
  }
}

function instants(
  perSecond: number,
  burstiness: number,
  random: Random,
  untilMs: number,
): Iterable<number> {
  assert(burstiness > 0, "gaps have a shape");
  if (burstiness === Infinity) return beats(perSecond, random, untilMs);
  const process = {
    meanPerSecond: perSecond,
    intervals: intervalsOf(burstiness),
    rateShapes: [],
  };
  return arrivalTimes(process, random, untilMs);
}

/** Evenly, each tenant from an offset of its own: two of the same rate do not always send together. */
function* beats(perSecond: number, random: Random, untilMs: number): Generator<number> {
  const gapMs = 1000 / perSecond;
  const offset = random();
  for (let beat = 0; ; beat += 1) {
    const atMs = (beat + offset) * gapMs;
    if (atMs >= untilMs) return;
    yield atMs;
  }
}

function drawFrom({ min, max }: TokenRange, random: Random): number {
  return min + Math.floor(random() * (max - min + 1));
}
