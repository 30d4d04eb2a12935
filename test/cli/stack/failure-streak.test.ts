import { describe, expect, test } from "vitest";
import { FailureStreak } from "../../../cli/stack/failure-streak.ts";

/** Takes outcomes that come every `everyMs`: `x` is a failure, `.` an answer; returns the verdicts. */
function verdictsOf(outcomes: string, everyMs: number): readonly boolean[] {
  const streak = new FailureStreak();
  return outcomes
    .split("")
    .map((outcome, index) => streak.take(outcome === ".", 7000 + index * everyMs));
}

describe("FailureStreak", () => {
  test("three failures in a row are a death once they have lasted five seconds", () => {
    expect(verdictsOf("xxx", 2500)).toEqual([false, false, true]);
    expect(verdictsOf("xxxx", 2000)).toEqual([false, false, false, true]);
  });

  test("two failures are none, however far apart they are", () => {
    expect(verdictsOf("xx", 60_000)).toEqual([false, false]);
  });

  test("failures in quick succession are none before five seconds have passed", () => {
    const verdicts = verdictsOf("x".repeat(51), 100);
    expect(verdicts.indexOf(true)).toBe(50);
  });

  test("one answer begins the count and the time anew", () => {
    expect(verdictsOf("xx.xx.xxx", 2500)).toEqual([
      ...Array.from({ length: 8 }, () => false),
      true,
    ]);
  });
});
