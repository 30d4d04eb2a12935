import type { Row } from "./section.ts";

/** A chart with more bars than this is one nobody can read. */
const BARS_MAX = 16;

/**
 * Draws the ratios that rows have as Mermaid charts: what was measured as bars, what the step curve says as a
 * line where it says a ratio of each. Rows that have none are left out; where there are too many, each of what
 * they begin with has a chart of its own.
 */
export function toRowPlots(title: string, rows: readonly Row[]): string[] {
  const plotted = rows.flatMap((row) => {
    const ratio = ratioIn(row.ours);
    return ratio === undefined ? [] : [{ ...row, ratio }];
  });
  const groups = new Map<string, typeof plotted>();
  for (const row of plotted) {
    const [first = ""] = row.what.split(", ");
    const name = plotted.length > BARS_MAX ? first : "";
    groups.set(name, [...(groups.get(name) ?? []), row]);
  }
  return [...groups].flatMap(([name, members]) => {
    const whole = name === "" ? title : `${title}, ${name}`;
    const labels = members.map(({ what }) => (name === "" ? what : what.slice(name.length + 2)));
    return ["", ...chartOf(whole, labels, members)];
  });
}

function chartOf(
  title: string,
  labels: readonly string[],
  rows: readonly (Row & { readonly ratio: number })[],
): string[] {
  const ratios = rows.map(({ ratio }) => ratio);
  const said = rows.map(({ predicted = "" }) => saidRatio(predicted));
  const predicted = said.filter((ratio) => ratio !== undefined);
  const hasLine = predicted.length === rows.length;
  const most = Math.max(1, ...ratios, ...(hasLine ? predicted : []));
  return [
    "```mermaid",
    "xychart-beta",
    `  title "${title}: times as good (bars${hasLine ? "; line: by the step curve" : ""})"`,
    `  x-axis [${labels.map((label) => `"${label.replaceAll('"', "'")}"`).join(", ")}]`,
    `  y-axis 0 --> ${Math.ceil(most)}`,
    `  bar [${ratios.map(String).join(", ")}]`,
    ...(hasLine ? [`  line [${predicted.map(String).join(", ")}]`] : []),
    "```",
  ];
}

/** The first figure that has an interval. */
function ratioIn(ours: string): number | undefined {
  const [, figure] = /(\d+(?:\.\d+)?) \[/u.exec(ours) ?? [];
  return figure === undefined ? undefined : Number(figure);
}

/** The curve says times or milliseconds. */
function saidRatio(predicted: string): number | undefined {
  const [, figure] = /^(\d+(?:\.\d+)?)(?: \[| ×|$)/u.exec(predicted) ?? [];
  return figure === undefined ? undefined : Number(figure);
}
