import type { HistogramState } from "./histogram.ts";

/** What a sample without labels has; `withLabel` adds to it. */
export const NO_LABELS = "";
const MUST_ESCAPE = /[\\"\n]/;

/** What a metric is called and what it means. */
export interface MetricName {
  readonly name: string;
  readonly type: "counter" | "gauge" | "histogram";
  readonly help: string;
}

/** A metric with some of its samples, as lines of text: cheap to send and to join with others' of its name. */
export interface MetricFamily extends MetricName {
  readonly lines: string;
}

/** One value of a counter or a gauge. Its labels are written already: many samples have the same ones. */
export interface MetricSample {
  readonly labels: string;
  readonly value: number;
}

/** Adds a label to others; its value may be any text, and cannot begin a line of its own. */
export function withLabel(labels: string, name: string, value: string): string {
  const escaped = MUST_ESCAPE.test(value) ? escape(value).replaceAll('"', '\\"') : value;
  return `${labels}${labels === NO_LABELS ? "" : ","}${name}="${escaped}"`;
}

/** Writes the samples of a counter or a gauge. */
export function metricFamily(name: MetricName, samples: readonly MetricSample[]): MetricFamily {
  const lines = samples.map(({ labels, value }) => toLine(name.name, labels, value));
  return { ...name, lines: lines.join("") };
}

/** Writes one histogram; its buckets are told cumulated. */
export function histogramFamily(
  { name, help }: { readonly name: string; readonly help: string },
  labels: string,
  bounds: readonly number[],
  { counts, sum }: HistogramState,
): MetricFamily {
  let count = 0;
  const buckets = counts.map((inBucket, index) => {
    count += inBucket;
    const le = toNumber(bounds[index] ?? Infinity);
    return toLine(`${name}_bucket`, withLabel(labels, "le", le), count);
  });
  const ends = [toLine(`${name}_sum`, labels, sum), toLine(`${name}_count`, labels, count)];
  return { name, type: "histogram", help, lines: [...buckets, ...ends].join("") };
}

/**
 * Writes metrics in Prometheus' text format 0.0.4. Families of one name are joined, since all samples
 * of a metric have to stand together.
 */
export function encodeMetrics(families: readonly MetricFamily[]): string {
  const byName = new Map<string, { readonly head: string; lines: string }>();
  for (const { name, type, help, lines } of families) {
    const known = byName.get(name);
    if (known !== undefined) {
      known.lines += lines;
      continue;
    }
    const head = `# HELP ${name} ${escape(help)}\n# TYPE ${name} ${type}\n`;
    byName.set(name, { head, lines });
  }
  return [...byName.values()].map(({ head, lines }) => head + lines).join("");
}

/** The type of what `encodeMetrics` writes. */
export const METRICS_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8";

function toLine(name: string, labels: string, value: number): string {
  return labels === NO_LABELS
    ? `${name} ${toNumber(value)}\n`
    : `${name}{${labels}} ${toNumber(value)}\n`;
}

function toNumber(value: number): string {
  if (value === Infinity) return "+Inf";
  return value === -Infinity ? "-Inf" : String(value);
}

function escape(text: string): string {
  return text.replaceAll("\\", "\\\\").replaceAll("\n", "\\n");
}
