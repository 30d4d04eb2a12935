import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { emptyHistogram, observe } from "../../../src/base/histogram.ts";
import {
  encodeMetrics,
  histogramFamily,
  metricFamily,
  NO_LABELS,
  withLabel,
} from "../../../src/base/metric-text.ts";
import { parseMetrics, valueOf } from "../../support/metric-lines.ts";

const GAUGE = { name: "depth", type: "gauge", help: "How deep" } as const;

describe("encodeMetrics()", () => {
  test("writes a head and a line a sample", () => {
    const samples = [
      { labels: withLabel(withLabel(NO_LABELS, "pool", "a"), "tier", "x"), value: 1.5 },
      { labels: NO_LABELS, value: Infinity },
    ];
    expect(encodeMetrics([metricFamily(GAUGE, samples)])).toBe(
      '# HELP depth How deep\n# TYPE depth gauge\ndepth{pool="a",tier="x"} 1.5\ndepth +Inf\n',
    );
  });

  test("puts all samples of a metric together, under one head", () => {
    const families = ["one a", "two a", "one b", "two b"].map((words) => {
      const [name = "", pool = ""] = words.split(" ");
      return metricFamily({ ...GAUGE, name }, [
        { labels: withLabel(NO_LABELS, "pool", pool), value: 1 },
      ]);
    });
    const text = encodeMetrics(families);
    const names = parseMetrics(text).map(({ name, labels }) => name + labels["pool"]);
    expect(names).toEqual(["onea", "oneb", "twoa", "twob"]);
    expect(text.match(/^# TYPE/gm)).toHaveLength(2);
  });

  test("keeps whatever stands in a label within its quotes", () => {
    const text = fc.oneof(fc.string(), fc.stringMatching(/^[\\"\n{},= x]*$/));
    fc.assert(
      fc.property(text, text, (first, second) => {
        const labels = withLabel(withLabel(NO_LABELS, "first", first), "second", second);
        const family = metricFamily(GAUGE, [{ labels, value: 7 }]);
        expect(parseMetrics(encodeMetrics([family]))).toEqual([
          { name: "depth", labels: { first, second }, value: 7 },
        ]);
      }),
    );
  });
});

describe("a histogram", () => {
  test("counts a value at a bound below it, and tells its buckets cumulated", () => {
    const bounds = [1, 2.5];
    const histogram = emptyHistogram(bounds);
    for (const value of [0, 1, 1.1, 2.5, 2.6, 99]) observe(histogram, bounds, value);
    const family = histogramFamily(
      { name: "t", help: "T" },
      withLabel(NO_LABELS, "pool", "a"),
      bounds,
      histogram,
    );
    const lines = parseMetrics(encodeMetrics([family]));
    const counts = ["1", "2.5", "+Inf"].map((le) => valueOf(lines, "t_bucket", { le }));
    expect(counts).toEqual([2, 4, 6]);
    expect(valueOf(lines, "t_count", { pool: "a" })).toBe(6);
    expect(valueOf(lines, "t_sum", { pool: "a" })).toBeCloseTo(106.2);
  });

  test("is not counted by other bounds than its own", () => {
    expect(() => observe(emptyHistogram([1, 2]), [1], 0)).toThrow("bounds");
  });
});
