/** Returns the sum of a metric's samples whose labels contain `labels`, 0 where there is none. */
export type Samples = (name: string, labels?: string) => number;

/** Reads one scrape in Prometheus' text format. */
export function readSamples(text: string): Samples {
  const lines = text.split("\n").filter((line) => line !== "" && !line.startsWith("#"));
  return (name, labels = "") => {
    let sum = 0;
    for (const line of lines) {
      const [, found, braces = "", value] = /^([\w:]+)(\{.*\})? (\S+)$/.exec(line) ?? [];
      if (found === name && braces.includes(labels)) sum += Number(value);
    }
    return sum;
  };
}
