import { describe, expect, test } from "vitest";
import type { RequestRecord } from "../../../simulator/request-record.ts";
import {
  keptShare,
  missedShare,
  pooledRatio,
  refusedInProfileShare,
} from "../../../simulator/promises/shares.ts";
import { aRecord } from "../records.ts";

const GOOD = aRecord();
const MISSED = aRecord({ attainment: { kind: "missed", missed: ["ttft"], isDegraded: false } });
const LEFT = aRecord({ attainment: { kind: "excluded", missed: [], isDegraded: false } });
const refused = (isInProfile: boolean): RequestRecord =>
  aRecord({
    verdict: "refused",
    isInProfile,
    attainment: { kind: "missed", missed: ["failed"], isDegraded: false },
  });
const ALL = [GOOD, GOOD, MISSED, LEFT, refused(true), refused(false)];

describe("shares", () => {
  test("misses are counted among the admitted that were judged", () => {
    expect(missedShare(ALL)).toEqual({ part: 1, whole: 3 });
  });

  test("refusals in profile are counted among all in profile", () => {
    expect(refusedInProfileShare(ALL)).toEqual({ part: 1, whole: 5 });
  });

  test("a refusal in profile breaks a promise, one beyond it does not", () => {
    expect(keptShare(ALL)).toEqual({ part: 2, whole: 4 });
  });

  test("shares of several seeds are pooled, not averaged", () => {
    expect(
      pooledRatio([
        { part: 1, whole: 1 },
        { part: 0, whole: 3 },
      ]),
    ).toBe(0.25);
    expect(pooledRatio([])).toBeNaN();
  });
});
