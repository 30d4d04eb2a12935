import * as fc from "fast-check";
import { expect, test } from "vitest";
import {
  maxOfMetric,
  parseMetricsText,
  ratioOf,
  sumOfMetric,
} from "../../../src/adapters/metrics-text.ts";

test("a metric is the sum over its labels, or its largest value", () => {
  const metrics = parseMetricsText(`# HELP a What it is
a{x="1"} 2
a{x="} 9 {",y="\\"quoted\\""} 3 1700000000000
a_total 100
b +Inf
c 1e2
`);
  expect(sumOfMetric(metrics, "a")).toBe(5);
  expect(maxOfMetric(metrics, "a")).toBe(3);
  expect(sumOfMetric(metrics, "absent", "c")).toBe(100);
  expect(sumOfMetric(metrics, "b")).toBeUndefined();
  expect(maxOfMetric(metrics, "absent")).toBeUndefined();
});

test("a ratio of nothing is unknown", () => {
  expect(ratioOf(1, 4)).toBe(0.25);
  expect(ratioOf(0, 0)).toBeUndefined();
  expect(ratioOf(undefined, 4)).toBeUndefined();
});

test("any text can be read, in time that grows with its length", () => {
  fc.assert(
    fc.property(fc.string({ unit: "binary", maxLength: 500 }), (text) => {
      for (const samples of parseMetricsText(text).values()) {
        for (const { value } of samples) expect(Number.isFinite(value)).toBe(true);
      }
    }),
  );
  // Would take hours if it were squared.
  const hostile = `a${"{".repeat(500_000)}\n${"a ".repeat(500_000)}\n`;
  expect(parseMetricsText(hostile.repeat(2)).size).toBeLessThanOrEqual(1);
});

test("no more is kept than a server can have to say", () => {
  expect(parseMetricsText("a 1\n".repeat(100_000)).get("a")).toHaveLength(20_000);
});
