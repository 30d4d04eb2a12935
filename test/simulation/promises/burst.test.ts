import { describe, expect, test } from "vitest";
import {
  admitsTheGuaranteedUnderLastingOverload,
  admitsWhoComesBackAsTold,
  recoversFromABurst,
  wastesNoWork,
} from "../../../simulator/promises/burst.ts";
import { brokenOf } from "../../../simulator/promises/finding.ts";
import { breaks, LONG } from "./breaks.ts";

describe("a burst of five seconds at three times the load", LONG, () => {
  const short = { seeds: 2, measuredMs: 10_000 };

  test("is forgotten one target after its end", () => {
    expect(brokenOf(recoversFromABurst({ ...short, seeds: 3 }))).toEqual([]);
  });

  test("goes on behind its end where what is late is served all the same", () => {
    const mechanisms = { admission: false, drop: false };
    expect(recoversFromABurst({ ...short, seeds: 1, mechanisms })).toSatisfy(breaks("good"));
  });

  test("makes engines do no work for what is refused", () => {
    expect(brokenOf(wastesNoWork({ ...short, seeds: 1 }))).toEqual([]);
  });

  test("makes them do much in vain where nothing is refused in time", () => {
    const mechanisms = { drop: false };
    expect(wastesNoWork({ ...short, seeds: 1, mechanisms })).toSatisfy(breaks("late answers"));
  });

  // So long that all who were refused have come back.
  const long = { seeds: 1, measuredMs: 75_000 };

  test("refuses requests that are admitted once they come back as told", () => {
    expect(brokenOf(admitsWhoComesBackAsTold(long))).toEqual([]);
  });

  test("refuses again who comes back at once", () => {
    expect(admitsWhoComesBackAsTold({ ...short, seeds: 1 }, "at-once")).toSatisfy(
      breaks("came back"),
    );
  });
});

describe("an overload that lasts", LONG, () => {
  const options = { seeds: 1, measuredMs: 15_000 };

  test("keeps nobody out who keeps to its guarantee", () => {
    expect(brokenOf(admitsTheGuaranteedUnderLastingOverload(options))).toEqual([]);
  });
});
