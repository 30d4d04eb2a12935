import { describe, expect, test } from "vitest";
import {
  LeastOutstanding,
  PowerOfTwoChoices,
  RoundRobin,
} from "../../../simulator/policies/load-balancers.ts";
import { chooser, replica } from "./policy-fixtures.ts";

describe("RoundRobin", () => {
  test("gives every replica the same number whatever its load", () => {
    const choose = chooser(new RoundRobin());
    const replicas = [replica(0, { outstanding: 99 }), replica(2), replica(5)];
    const chosen = Array.from({ length: 300 }, () => choose(replicas));
    for (const index of [0, 2, 5]) expect(chosen.filter((one) => one === index)).toHaveLength(100);
  });
});

describe("LeastOutstanding", () => {
  test("goes where the router itself has the fewest, whatever the metrics say", () => {
    const choose = chooser(new LeastOutstanding());
    const quiet = replica(4, { outstanding: 2, queuedRequests: 50, usedKvRatio: 1 });
    expect(choose([replica(1, { outstanding: 3 }), quiet])).toBe(4);
  });

  test("draws between equals", () => {
    const choose = chooser(new LeastOutstanding());
    const replicas = [replica(0), replica(1), replica(2, { outstanding: 1 })];
    const chosen = Array.from({ length: 1_000 }, () => choose(replicas));
    expect(chosen.filter((index) => index === 0).length).toBeGreaterThan(430);
    expect(chosen.filter((index) => index === 1).length).toBeGreaterThan(430);
  });
});

describe("PowerOfTwoChoices", () => {
  test("never picks the most loaded of three, and the least loaded two times of three", () => {
    const choose = chooser(new PowerOfTwoChoices());
    const replicas = [0, 1, 2].map((index) => replica(index, { outstanding: index }));
    const chosen = Array.from({ length: 3_000 }, () => choose(replicas));
    expect(chosen).not.toContain(2);
    // 2,000 are expected, with a standard deviation of 26.
    expect(Math.abs(chosen.filter((index) => index === 0).length - 2_000)).toBeLessThan(130);
  });

  test("takes the only replica there is", () => {
    expect(chooser(new PowerOfTwoChoices())([replica(3)])).toBe(3);
  });
});
