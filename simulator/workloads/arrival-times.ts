import type { Random } from "../../src/base/random.ts";
import { drawSeed, seededRandom } from "../../src/base/random.ts";
import type { IntervalShape } from "./intervals.ts";
import { intervalSampler } from "./intervals.ts";
import type { RateShape } from "./rate-shape.ts";
import { rateSteps } from "./rate-shape.ts";

/** When requests come: a renewal process whose rate moves. */
export interface ArrivalProcess {
  readonly meanPerSecond: number;
  readonly intervals: IntervalShape;
  readonly rateShapes: readonly RateShape[];
}

/**
 * Yields the instants of a process before `untilMs`, in order.
 *
 * Gaps are drawn in operational time, where the rate is 1, and stretched by the rate over real time.
 * So a burst that begins inside a long gap cuts that gap short, and a window has on average as many
 * requests as its rate says. How the rate moves has a sequence of its own: a tenant that sends more
 * has its peaks at the same instants.
 */
export function* arrivalTimes(
  process: ArrivalProcess,
  random: Random,
  untilMs: number,
): Generator<number> {
  if (process.meanPerSecond <= 0) return;
  const nextInterval = intervalSampler(process.intervals);
  const shapesRandom = seededRandom(drawSeed(random));
  let nowMs = 0;
  let leftToNext = nextInterval(random);
  for (const step of rateSteps(process.rateShapes, shapesRandom)) {
    const perMs = (process.meanPerSecond * step.factor) / 1000;
    for (;;) {
      const stepLeft = (step.untilMs - nowMs) * perMs;
      // At rate 0 in a last, endless step nothing comes any more; NaN would compare as false.
      if (perMs === 0 || stepLeft < leftToNext) {
        if (perMs > 0) leftToNext -= stepLeft;
        nowMs = step.untilMs;
        break;
      }
      nowMs += leftToNext / perMs;
      if (nowMs >= untilMs) return;
      yield nowMs;
      leftToNext = nextInterval(random);
    }
    if (nowMs >= untilMs) return;
  }
}
