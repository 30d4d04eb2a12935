import type { Random } from "../../src/base/random.ts";
import type { RequestDetail } from "./load-result.ts";

/** What `figuresOf` tells, in its order. */
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

/** How often each block was drawn. */
export type BlockDraw = Uint32Array;

/** All requests of one metric, the least first, a failure being infinitely late, and the block of each. */
interface SortedMetric {
  readonly values: readonly number[];
  readonly blocks: readonly number[];
}

interface BlockCounts {
  offered: number;
  good: number;
  refused: number;
}

const METRICS = ["ttft_ms", "tpot_ms", "e2el_ms"] as const;
const RATIOS = [0.5, 0.99] as const;

/**
 * One side's requests in blocks of those that followed each other, the root of their number each. Their figures are
 * wanted hundreds of times, each time of other blocks: sorted once, every time is one walk along them.
 */
export class BlockedRequests {
  readonly #counts: readonly BlockCounts[];
  readonly #metrics: readonly SortedMetric[];

  /** In the order in which they were due; one or more. */
  constructor(requests: readonly RequestDetail[]) {
    const size = Math.max(1, Math.round(Math.sqrt(requests.length)));
    const blockOf = (index: number) => Math.floor(index / size);
    const blocks = Math.ceil(requests.length / size);
    const counts = Array.from({ length: blocks }, () => ({ offered: 0, good: 0, refused: 0 }));
    for (const [index, { good, ending }] of requests.entries()) {
      const own = counts[blockOf(index)];
      if (own === undefined) continue;
      own.offered += 1;
      own.good += good ? 1 : 0;
      own.refused += ending === "refused" ? 1 : 0;
    }
    this.#counts = counts;
    this.#metrics = METRICS.map((metric) => {
      const sorted = requests
        .flatMap((request, index) =>
          request.ending === "refused"
            ? []
            : [{ value: request[metric] ?? Infinity, block: blockOf(index) }],
        )
        .toSorted((a, b) => (a.value < b.value ? -1 : a.value > b.value ? 1 : 0));
      return {
        values: sorted.map(({ value }) => value),
        blocks: sorted.map(({ block }) => block),
      };
    });
  }

  /** Every block once. */
  get whole(): BlockDraw {
    return new Uint32Array(this.#counts.length).fill(1);
  }

  /** As many blocks as there are, with replacement. */
  draw(random: Random): BlockDraw {
    const times = new Uint32Array(this.#counts.length);
    for (let draw = 0; draw < times.length; draw += 1) {
      const block = Math.floor(random() * times.length);
      times[block] = (times[block] ?? 0) + 1;
    }
    return times;
  }

  /** In the order of `FIGURE_NAMES`; latencies are of those that were not refused. */
  figuresOf(times: BlockDraw): number[] {
    const sum = { offered: 0, good: 0, refused: 0 };
    for (const [block, { offered, good, refused }] of this.#counts.entries()) {
      const drawn = times[block] ?? 0;
      sum.offered += drawn * offered;
      sum.good += drawn * good;
      sum.refused += drawn * refused;
    }
    return [
      (100 * sum.good) / sum.offered,
      (100 * sum.refused) / sum.offered,
      ...this.#metrics.flatMap((metric) => quantilesOf(metric, times, sum.offered - sum.refused)),
    ];
  }
}

/** As `quantileOf` has them, of `total` values in all, each as often as its block was drawn. */
function quantilesOf({ values, blocks }: SortedMetric, times: BlockDraw, total: number): number[] {
  if (total === 0) return RATIOS.map(() => NaN);
  return RATIOS.map((ratio) => {
    const position = (total - 1) * ratio;
    let index = 0;
    let passed = 0;
    const valueAt = (place: number) => {
      while (passed <= place) {
        passed += times[blocks[index] ?? 0] ?? 0;
        index += 1;
      }
      return values[index - 1] ?? NaN;
    };
    const lower = valueAt(Math.floor(position));
    const upper = valueAt(Math.ceil(position));
    // Infinite values have no middle between them.
    return lower === upper ? lower : lower + (upper - lower) * (position - Math.floor(position));
  });
}
