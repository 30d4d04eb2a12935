import * as fc from "fast-check";
import { expect, test } from "vitest";
import { TimeMerge } from "../../../simulator/workloads/time-merge.ts";

test("any streams in order of time merge into one that has all items in order", () => {
  const stream = fc
    .array(fc.integer({ min: 0, max: 1000 }))
    .map((times) => times.toSorted((a, b) => a - b));
  fc.assert(
    fc.property(
      fc.array(stream, { maxLength: 8 }),
      fc.integer({ min: 0, max: 1000 }),
      (streams, untilMs) => {
        const merge = new TimeMerge<{ atMs: number }>();
        for (const times of streams) merge.add(times.map((atMs) => ({ atMs })).values());
        const taken: number[] = [];
        for (let next = merge.take(untilMs); next; next = merge.take(untilMs))
          taken.push(next.atMs);
        const expected = streams.flat().filter((atMs) => atMs <= untilMs);
        expect(taken).toEqual(expected.toSorted((a, b) => a - b));
        expect(merge.size).toBe(streams.filter((times) => (times.at(-1) ?? -1) > untilMs).length);
      },
    ),
  );
});

test("a stream that runs backwards is a bug", () => {
  const merge = new TimeMerge<{ atMs: number }>();
  merge.add([{ atMs: 2 }, { atMs: 1 }].values());
  expect(() => merge.take(5)).toThrow("in order of time");
});
