import { describe, expect, test } from "vitest";
import { brokenOf } from "../../../simulator/promises/finding.ts";
import {
  keepsPromisesAtTwiceTheLoad,
  servesAsMuchAsTheBestLimit,
} from "../../../simulator/promises/overload.ts";
import { breaks, LONG } from "./breaks.ts";

// Few seeds; `npm run bench:promises` takes twenty, and five thousand requests of every tenant.
const SMALL_RUN = { seeds: 2, measuredMs: 12_000 };
const SHORT_RUN = { seeds: 2, measuredMs: 10_000 };
/** What breaks does so soon. */
const BROKEN_RUN = { seeds: 1, measuredMs: 4_000 };
/** Of all that the benchmark tries, those that are best there. */
const BEST_LIMITS = [72, 80];

describe("at twice the load that is sustainable", LONG, () => {
  test("99 % of every tenant's admitted requests are in time, and 99.9 % in profile are admitted", () => {
    expect(brokenOf(keepsPromisesAtTwiceTheLoad(SMALL_RUN))).toEqual([]);
  });

  test("as much is served, by cost, as nine tenths of what the best fixed limit lets through", () => {
    expect(brokenOf(servesAsMuchAsTheBestLimit(SHORT_RUN, BEST_LIMITS))).toEqual([]);
  });

  test("less is served in time where nothing is refused", () => {
    const without = { ...BROKEN_RUN, mechanisms: { admission: false } };
    expect(servesAsMuchAsTheBestLimit(without, BEST_LIMITS.slice(-1))).toSatisfy(
      breaks("good cost"),
    );
  });

  test("answers are late unless requests are refused", () => {
    const few = { ...BROKEN_RUN, mechanisms: { admission: false } };
    expect(keepsPromisesAtTwiceTheLoad(few)).toSatisfy(breaks("misses of tight"));
  });

  test("what is guaranteed is refused as well unless it comes first", () => {
    const mechanisms = { guarantees: false };
    expect(keepsPromisesAtTwiceTheLoad({ ...BROKEN_RUN, mechanisms })).toSatisfy(
      breaks("in profile accepted"),
    );
  });
});
