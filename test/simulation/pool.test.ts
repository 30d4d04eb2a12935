import { describe, expect, test } from "vitest";
import { runWorld } from "./pool-world.ts";

const SEEDS = Array.from({ length: 200 }, (_, index) => index + 1);

describe("a pool among engines that fail, clients that leave and reports that get lost", () => {
  test("keeps its laws after every event, whatever the seed", () => {
    const verdicts = new Map<string, number>();
    for (const seed of SEEDS) {
      for (const line of runWorld(seed)) {
        const [, kind, , reason] = line.split(" ");
        const verdict = kind === "reject" ? (reason ?? "") : (kind ?? "");
        verdicts.set(verdict, (verdicts.get(verdict) ?? 0) + 1);
      }
    }
    // A law that no event could have broken proves nothing: each verdict occurs, and often.
    for (const reason of ["infeasible", "deadline-passed", "no-replica", "queue-full"]) {
      expect(verdicts.get(reason)).toBeGreaterThan(100);
    }
    expect(verdicts.get("unattainable")).toBeGreaterThan(50);
    expect(verdicts.get("withdrawn")).toBeGreaterThan(10);
    expect(verdicts.get("dispatch")).toBeGreaterThan(10_000);
  });

  test("has one history for one seed, and another for another", () => {
    expect(runWorld(7)).toEqual(runWorld(7));
    expect(runWorld(7)).not.toEqual(runWorld(8));
  });
});
