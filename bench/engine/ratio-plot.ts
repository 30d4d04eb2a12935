/** How many times as fast one of our sides is, for each workload. */
export interface PlottedSide {
  readonly name: string;
  readonly ratios: readonly number[];
}

/**
 * Draws ratios as a Mermaid chart, the first side as bars and the second, if there is one, as a line.
 * Charts have no legend, so the title says it.
 */
export function toRatioPlot(
  peer: string,
  workloads: readonly string[],
  [bars, line]: readonly PlottedSide[],
): string[] {
  if (bars === undefined) return [];
  const words = [`bars: ${bars.name}`, ...(line === undefined ? [] : [`line: ${line.name}`])];
  const most = Math.max(1, ...bars.ratios, ...(line?.ratios ?? []));
  return [
    "```mermaid",
    "xychart-beta",
    `  title "Times as fast as ${peer} (${words.join(", ")})"`,
    `  x-axis [${workloads.map((workload) => `"${workload}"`).join(", ")}]`,
    `  y-axis 0 --> ${Math.ceil(most)}`,
    `  bar [${toNumbers(bars.ratios)}]`,
    ...(line === undefined ? [] : [`  line [${toNumbers(line.ratios)}]`]),
    "```",
  ];
}

function toNumbers(ratios: readonly number[]): string {
  return ratios.map((ratio) => ratio.toFixed(2)).join(", ");
}
