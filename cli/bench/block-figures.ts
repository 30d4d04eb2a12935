import type { RequestDetail } from "./load-result.ts";

/** What two loads are compared by, in the order of their figures. */
export const FIGURE_NAMES = [
  "good of offered, %",
  "refused, %",
  "TTFT p50, ms",
  "TTFT p99, ms",
  "TPOT p50, ms",
  "TPOT p99, ms",
  "E2E p50, ms",
  "E2E p99, ms",
] as const;

const METRICS = ["ttft_ms", "tpot_ms", "e2el_ms"] as const;
const RATIOS = [0.5, 0.99] as const;

/** Latencies of admitted requests, the least first, and which block each is of. */
interface Ranked {
  readonly values: Float64Array;
  readonly blockOf: Uint32Array;
}

/**
 * Returns what tells the figures of a load whose requests are in blocks, when each block is there so many times.
 * Whatever is drawn of them, they are sorted once.
 */
export function blockFigures(
  blocks: readonly (readonly RequestDetail[])[],
): (times: Uint32Array) => number[] {
  const admitted = blocks.map((block) => block.filter(({ ending }) => ending !== "refused"));
  const counts = blocks.map((block, index) => ({
    offered: block.length,
    good: block.filter(({ good }) => good).length,
    refused: block.length - (admitted[index] ?? []).length,
  }));
  const ranked = METRICS.map((metric) => rankedBy(admitted, metric));
  return (times) => {
    const totalOf = (count: "offered" | "good" | "refused") =>
      counts.reduce((sum, each, block) => sum + each[count] * (times[block] ?? 0), 0);
    const [offered, refused] = [totalOf("offered"), totalOf("refused")];
    return [
      (100 * totalOf("good")) / offered,
      (100 * refused) / offered,
      ...ranked.flatMap((latencies) =>
        RATIOS.map((ratio) => quantileIn(latencies, times, { count: offered - refused, ratio })),
      ),
    ];
  };
}

function rankedBy(
  blocks: readonly (readonly RequestDetail[])[],
  metric: (typeof METRICS)[number],
): Ranked {
  const all = blocks
    .flatMap((block, index) => block.map((request) => ({ value: request[metric], index })))
    .map(({ value, index }) => ({ value: value ?? Infinity, index }))
    // Infinite ones have no difference.
    .toSorted((one, other) => (one.value === other.value ? 0 : one.value - other.value));
  return {
    values: Float64Array.from(all, ({ value }) => value),
    blockOf: Uint32Array.from(all, ({ index }) => index),
  };
}

/** A quantile of so many latencies, interpolated between neighbours as `quantileOf` does it. */
function quantileIn(
  { values, blockOf }: Ranked,
  times: Uint32Array,
  { count, ratio }: { readonly count: number; readonly ratio: number },
): number {
  const position = (count - 1) * ratio;
  let rank = -1;
  let passed = 0;
  const valueAt = (place: number): number => {
    while (passed <= place && rank < values.length) {
      rank += 1;
      passed += times[blockOf[rank] ?? 0] ?? 0;
    }
    return values[rank] ?? NaN;
  };
  const lower = valueAt(Math.floor(position));
  const upper = valueAt(Math.ceil(position));
  return lower === upper ? lower : lower + (upper - lower) * (position - Math.floor(position));
}
