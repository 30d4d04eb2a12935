import { describe, expect, test } from "vitest";
import { LeastOutstanding } from "../../../simulator/policies/load-balancers.ts";
import { brokenOf } from "../../../simulator/promises/finding.ts";
import {
  findsPrefixesWithinTheBound,
  hidesABlackHole,
  leavesOutABlackHole,
  spreadsAHotPrefix,
} from "../../../simulator/promises/routing.ts";
import { breaks, LONG } from "./breaks.ts";

describe("routing", LONG, () => {
  // Every dispatch counts, also while a replica that has fitted a handful of steps takes itself for twice as fast: in
  // fewer seeds, or shorter ones, those alone are more than one in a hundred.
  const affinity = { seeds: 8, measuredMs: 40_000 };

  test("finds nine tenths of the cached tokens that an oracle finds, and loads no replica for it", () => {
    expect(brokenOf(findsPrefixesWithinTheBound(affinity))).toEqual([]);
  });

  test("lets a prefix that all prompts have spread to all replicas", () => {
    expect(brokenOf(spreadsAHotPrefix(affinity))).toEqual([]);
  });

  test("finds fewer by the number of requests alone", () => {
    const byNumber = findsPrefixesWithinTheBound(
      { ...affinity, seeds: 2 },
      () => new LeastOutstanding(),
    );
    expect(byNumber).toSatisfy(breaks("hit tokens"));
  });

  const hole = { seeds: 2, measuredMs: 8_000 };

  test("leaves out a replica that swallows requests, while the others keep all promises", () => {
    expect(brokenOf(leavesOutABlackHole(hole))).toEqual([]);
  });

  test("sends it a part of all requests where no replica is left out", () => {
    const mechanisms = { ejection: false };
    expect(leavesOutABlackHole({ ...hole, mechanisms })).toSatisfy(breaks("kept"));
  });

  test("lets nobody feel a replica that swallows requests, for three extra requests in a hundred", () => {
    expect(brokenOf(hidesABlackHole(hole))).toEqual([]);
  });

  test("lets clients fail where what is late just waits", () => {
    expect(hidesABlackHole(hole, false)).toSatisfy(breaks("failures seen"));
  });

  test("cannot hide it where it is not left out as well: copies are too few for all", () => {
    const mechanisms = { ejection: false };
    expect(hidesABlackHole({ ...hole, mechanisms })).toSatisfy(breaks("p99 TTFT of tight"));
  });
});
