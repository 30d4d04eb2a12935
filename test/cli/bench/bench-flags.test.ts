import { describe, expect, test } from "vitest";
import { joinGoals, warmUpMsOf } from "../../../cli/bench/bench-flags.ts";
import { meetsGoals, parseGoals } from "../../../cli/bench/goals.ts";

describe("joinGoals()", () => {
  test.each([
    [
      ["--goodput", "ttft:500", "tpot:30", "http://h:1"],
      ["--goodput", "ttft:500 tpot:30", "http://h:1"],
    ],
    [
      ["http://h:1", "--goodput=ttft:500", "tpot:30", "--rate", "2"],
      ["http://h:1", "--goodput=ttft:500 tpot:30", "--rate", "2"],
    ],
    [
      ["--goodput", "ttft:500", "--rate", "2"],
      ["--goodput", "ttft:500", "--rate", "2"],
    ],
    [["host:80"], ["host:80"]],
  ])("makes one word of several: %j", (words, expected) => {
    expect(joinGoals(words)).toEqual(expected);
  });
});

describe("warmUpMsOf()", () => {
  test.each([
    [60_000, undefined, 5_000],
    [10_000, undefined, 5_000],
    [5_000, undefined, 2_500],
    [60_000, 0, 0],
    [60_000, 20_000, 20_000],
  ])("of a load of %d ms with %j given is %d ms", (duration, given, expected) => {
    expect(warmUpMsOf({ duration, "warm-up": given })).toBe(expected);
  });
});

describe("parseGoals()", () => {
  test("reads what vLLM reads", () => {
    expect(parseGoals("ttft:500 tpot:30.5,e2el:9000")).toEqual({
      ttft: 500,
      tpot: 30.5,
      e2el: 9000,
    });
  });

  test.each(["ttft", "ttft:", "ttft:-1", "ttft:x", "ttft:1:2", "p99:3", "", "ttft:1 ttft:2"])(
    "refuses %j",
    (text) => {
      expect(() => parseGoals(text)).toThrow("Expected");
    },
  );

  test("is met up to the limit itself and not beyond it, by every metric", () => {
    const answer = { ttftMs: 500, tpotMs: 30, e2eMs: 900, longestGapMs: 100 };
    expect(meetsGoals(answer, parseGoals("ttft:500 tpot:30 e2el:900 tbt:100"))).toBe(true);
    for (const goal of ["ttft:499", "tpot:29", "e2el:899", "tbt:99"]) {
      expect(meetsGoals(answer, parseGoals(goal))).toBe(false);
    }
  });
});
