/** Lines that are read of one answer; servers with many models have some thousand. */
const LINES_MAX = 20_000;
const SAMPLE = /^([A-Za-z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)/;

/** One value of a metric, with its labels as they were written. */
interface Sample {
  readonly labels: string;
  readonly value: number;
}

/** Metrics by their names. */
export type MetricsText = ReadonlyMap<string, readonly Sample[]>;

/**
 * Reads Prometheus' text format (https://prometheus.io/docs/instrumenting/exposition_formats/), as far as gauges
 * and counters go. What is no number is left out, and so are lines that make no sense: a metric that cannot be
 * read is one that is not told.
 */
export function parseMetricsText(text: string): MetricsText {
  const metrics = new Map<string, Sample[]>();
  for (const line of text.split("\n", LINES_MAX)) {
    if (line === "" || line.startsWith("#")) continue;
    const [, name, labels = "", written] = SAMPLE.exec(line) ?? [];
    const value = Number(written);
    if (name === undefined || !Number.isFinite(value)) continue;
    const samples = metrics.get(name);
    if (samples === undefined) metrics.set(name, [{ labels, value }]);
    else samples.push({ labels, value });
  }
  return metrics;
}

/** Adds up a metric over its labels: over models, ranks, reasons. Of several names the first that is there. */
export function sumOfMetric(metrics: MetricsText, ...names: readonly string[]): number | undefined {
  return samplesOf(metrics, names)?.reduce((sum, { value }) => sum + value, 0);
}

/** The largest value of a metric over its labels. */
export function maxOfMetric(metrics: MetricsText, ...names: readonly string[]): number | undefined {
  const samples = samplesOf(metrics, names);
  return samples && Math.max(...samples.map(({ value }) => value));
}

function samplesOf(metrics: MetricsText, names: readonly string[]): readonly Sample[] | undefined {
  return names.flatMap((name) => [metrics.get(name) ?? []].filter((found) => found.length > 0))[0];
}

/** The ratio of two counters; absent where one is not told, or nothing was counted. */
export function ratioOf(part: number | undefined, whole: number | undefined): number | undefined {
  if (part === undefined || whole === undefined || whole <= 0) return undefined;
  return part / whole;
}
