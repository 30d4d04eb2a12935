import { assert } from "./assert.ts";

/** How many values lay between the bounds of a histogram: plain data, that only ever grows. */
export interface HistogramState {
  /** One more than there are bounds: the last is of what lies beyond all of them. */
  readonly counts: number[];
  sum: number;
}

/** A histogram without a value in it. */
export function emptyHistogram(bounds: readonly number[]): HistogramState {
  return { counts: Array.from({ length: bounds.length + 1 }, () => 0), sum: 0 };
}

/** Counts a value into the first bucket whose bound it does not exceed, as Prometheus has it. */
export function observe(state: HistogramState, bounds: readonly number[], value: number): void {
  assert(state.counts.length === bounds.length + 1, "a histogram keeps its bounds");
  const found = bounds.findIndex((bound) => value <= bound);
  const index = found === -1 ? bounds.length : found;
  state.counts[index] = (state.counts[index] ?? 0) + 1;
  state.sum += value;
}
