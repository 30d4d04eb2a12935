/** One sample of Prometheus' text format, as a scraper reads it. */
export interface MetricLine {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

const SAMPLE = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$/;
const LABEL = /([a-zA-Z_]\w*)="((?:[^"\\]|\\["\\n])*)"(?:,|$)/gy;

/** Reads the text format 0.0.4 by its grammar, and throws on a line that it does not have. */
export function parseMetrics(text: string): MetricLine[] {
  if (!text.endsWith("\n")) throw new Error("The text does not end with a line feed");
  return text
    .slice(0, -1)
    .split("\n")
    .filter((line) => !/^# (HELP|TYPE) [a-zA-Z_:][\w:]* ./.test(line))
    .map(parseLine);
}

/** The value of the one sample that has these labels among its own. */
export function valueOf(
  lines: readonly MetricLine[],
  name: string,
  labels: Readonly<Record<string, string>> = {},
): number | undefined {
  const found = lines.filter(
    (line) =>
      line.name === name &&
      Object.entries(labels).every(([key, text]) => line.labels[key] === text),
  );
  if (found.length > 1) throw new Error(`${found.length} samples of ${name} have these labels`);
  return found[0]?.value;
}

function parseLine(line: string): MetricLine {
  const [, name = "", inner = "", number = ""] = SAMPLE.exec(line) ?? [];
  if (name === "") throw new Error(`No sample: ${line}`);
  const pairs = [...inner.matchAll(LABEL)];
  if (pairs.map(([whole]) => whole).join("") !== inner) throw new Error(`No labels: ${line}`);
  const labels = Object.fromEntries(
    pairs.map(([, key = "", text = ""]) => [key, text.replaceAll(/\\(.)/g, unescape)]),
  );
  return { name, labels, value: number === "+Inf" ? Infinity : Number(number) };
}

function unescape(_: string, character: string): string {
  return character === "n" ? "\n" : character;
}
