import type { HistogramState } from "./histogram.ts";

/** Names in a fixed order; values may be any text. */
export type MetricLabels = Readonly<Record<string, string>>;

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

/** One value of a counter or a gauge. */
export interface MetricSample {
  readonly labels: MetricLabels;
  readonly value: number;
}

/** Writes the samples of a counter or a gauge. */
export function metricFamily(name: MetricName, samples: readonly MetricSample[]): MetricFamily {
  const lines = samples.map(({ labels, value }) => toLine(name.name, labels, value));
  return { ...name, lines: lines.join("") };
}

/** Writes one histogram; its buckets are told cumulated. */
export function histogramFamily(
  { name, help }: { readonly name: string; readonly help: string },
  labels: MetricLabels,
  bounds: readonly number[],
  { counts, sum }: HistogramState,
): MetricFamily {
  let count = 0;
  const buckets = counts.map((inBucket, index) => {
    count += inBucket;
    const le = toNumber(bounds[index] ?? Infinity);
    return toLine(`${name}_bucket`, { ...labels, le }, count);
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
    const head = `# HELP ${name} ${escapeHelp(help)}\n# TYPE ${name} ${type}\n`;
    byName.set(name, { head, lines });
  }
  return [...byName.values()].map(({ head, lines }) => head + lines).join("");
}

/** The type of what `encodeMetrics` writes. */
export const METRICS_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8";

function toLine(name: string, labels: MetricLabels, value: number): string {
  const pairs = Object.entries(labels).map(([label, text]) => `${label}="${escapeLabel(text)}"`);
  const braced = pairs.length === 0 ? "" : `{${pairs.join(",")}}`;
  return `${name}${braced} ${toNumber(value)}\n`;
}

function toNumber(value: number): string {
  if (value === Infinity) return "+Inf";
  return value === -Infinity ? "-Inf" : String(value);
}

function escapeHelp(text: string): string {
  return text.replaceAll("\\", "\\\\").replaceAll("\n", "\\n");
}

/** A name of a tenant must not be able to begin a line of its own. */
function escapeLabel(text: string): string {
  return escapeHelp(text).replaceAll('"', '\\"');
}
