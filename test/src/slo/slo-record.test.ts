import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Attainment } from "../../../src/slo/attainment.ts";
import { FAILED } from "../../../src/slo/attainment.ts";
import type { SloEvent } from "../../../src/slo/slo-counts.ts";
import { noSloCounts, offeredOf, REFUSAL_REASONS, refusedOf } from "../../../src/slo/slo-counts.ts";
import { SLO_CLASSES_MAX, SLO_WINDOWS, SloRecord } from "../../../src/slo/slo-record.ts";

const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;
const NOW_MS = 480_000 * HOUR_MS;

const attainment = (kind: Attainment["kind"], isDegraded = false): Attainment => ({
  kind,
  missed: kind === "missed" ? ["ttft"] : [],
  isDegraded,
});
const ended = (kind: Attainment["kind"], isDegraded = false): SloEvent => ({
  kind: "ended",
  attainment: attainment(kind, isDegraded),
  isInProfile: true,
  ...(kind === "missed" && { cause: "queue" }),
});
const GOOD = ended("good");

function countsOf(record: SloRecord, nowMs: number, className = "chat") {
  const sums = record.sums(nowMs).find((sum) => sum.className === className);
  return SLO_WINDOWS.map((_, index) => offeredOf(sums?.windows[index] ?? noSloCounts()));
}

describe("SloRecord", () => {
  test("counts each request once in each window, until it is too long ago", () => {
    const record = new SloRecord();
    record.count("chat", GOOD, NOW_MS);
    expect(countsOf(record, NOW_MS)).toEqual([1, 1, 1]);
    expect(countsOf(record, NOW_MS + 5 * MINUTE_MS)).toEqual([0, 1, 1]);
    expect(countsOf(record, NOW_MS + HOUR_MS)).toEqual([0, 0, 1]);
    expect(countsOf(record, NOW_MS + 719 * HOUR_MS)).toEqual([0, 0, 1]);
    expect(countsOf(record, NOW_MS + 720 * HOUR_MS)).toEqual([0, 0, 0]);
  });

  test("tells apart what became of them", () => {
    const record = new SloRecord();
    record.count("chat", GOOD, NOW_MS);
    record.count("chat", ended("good", true), NOW_MS);
    record.count("chat", ended("missed"), NOW_MS);
    record.count("chat", ended("missed", true), NOW_MS);
    record.count("chat", ended("excluded"), NOW_MS);
    record.count("chat", { kind: "ended", attainment: FAILED, isInProfile: false }, NOW_MS);
    record.count("chat", { kind: "refused", reason: "infeasible", isOurs: true }, NOW_MS);
    record.count("chat", { kind: "refused", reason: "tokens", isOurs: false }, NOW_MS);
    const [counts] = record.sums(NOW_MS)[0]?.windows ?? [];
    expect(counts).toMatchObject({
      good: 1,
      degraded: 1,
      missed: 3,
      excluded: 1,
      inProfile: 5,
      refusedInProfile: 1,
      missedFor: { queue: 2, replica: 1 },
      refusedFor: { infeasible: 1, tokens: 1 },
    });
  });

  test("a clock that runs backwards counts into the latest minute", () => {
    const record = new SloRecord();
    record.count("chat", GOOD, NOW_MS);
    record.count("chat", GOOD, NOW_MS - HOUR_MS);
    expect(countsOf(record, NOW_MS)).toEqual([2, 2, 2]);
    expect(countsOf(record, NOW_MS - HOUR_MS)).toEqual([2, 2, 2]);
    record.checkInvariants();
  });

  test("forgets the class used longest ago at its bound", () => {
    const record = new SloRecord();
    for (let index = 0; index <= SLO_CLASSES_MAX; index += 1) {
      record.count(`c${index}`, GOOD, NOW_MS);
      record.count("c0", GOOD, NOW_MS);
      record.checkInvariants();
    }
    const names = record.sums(NOW_MS).map(({ className }) => className);
    expect(names).toHaveLength(SLO_CLASSES_MAX);
    expect(names).toContain("c0");
    expect(names).not.toContain("c1");
  });

  const events = fc.array(
    fc.record({
      className: fc.constantFrom("chat", "bulk"),
      afterMs: fc.oneof(fc.nat(30_000), fc.nat(20 * MINUTE_MS), fc.nat(40 * HOUR_MS)),
      event: fc.oneof(
        fc.constantFrom(GOOD, ended("missed"), ended("excluded"), ended("good", true)),
        fc.constantFrom(...REFUSAL_REASONS).map((reason): SloEvent => ({
          kind: "refused",
          reason,
          isOurs: reason === "infeasible",
        })),
      ),
    }),
    { maxLength: 300 },
  );

  test("agrees with a list of all events, to the minute and to the hour, also put together again", () => {
    fc.assert(
      fc.property(events, fc.nat(10), (steps, saveEvery) => {
        let record = new SloRecord();
        const stored = new Map<string, ReturnType<SloRecord["takeChanged"]>[number]>();
        let nowMs = NOW_MS;
        const seen: { className: string; atMs: number }[] = [];
        for (const [index, { className, afterMs, event }] of steps.entries()) {
          nowMs += afterMs;
          record.count(className, event, nowMs);
          seen.push({ className, atMs: nowMs });
          for (const bucket of record.takeChanged()) {
            const key = `${bucket.className}:${bucket.ring}:${bucket.place}`;
            stored.set(key, structuredClone(bucket));
          }
          if (saveEvery > 0 && index % saveEvery === 0) record = new SloRecord(stored.values());
          record.checkInvariants();
        }
        for (const name of ["chat", "bulk"]) {
          const within = (bucketMs: number, count: number) =>
            seen.filter(
              ({ className, atMs }) =>
                className === name &&
                Math.floor(atMs / bucketMs) > Math.floor(nowMs / bucketMs) - count,
            ).length;
          const expected = [within(MINUTE_MS, 5), within(MINUTE_MS, 60), within(HOUR_MS, 720)];
          expect(countsOf(record, nowMs, name)).toEqual(expected);
        }
        const total = record.sums(nowMs).map(({ windows }) => windows[2] ?? noSloCounts());
        for (const counts of total) {
          expect(offeredOf(counts)).toBe(
            counts.good + counts.degraded + counts.missed + counts.excluded + refusedOf(counts),
          );
          const causes = Object.values(counts.missedFor).reduce((sum, count) => sum + count, 0);
          expect(causes).toBe(counts.missed);
        }
      }),
      { numRuns: 100 },
    );
  });
});
