/** What a selection adds up: 1 a value, or the values themselves. */
export type CutMeasure = "count" | "sum";

/**
 * Returns the largest value such that it and all larger ones together measure at least `target`; the
 * largest of all for a target of 0, the smallest for one that is never reached. Reorders `values`, which
 * must not be empty. It narrows them down around a pivot, in linear time on average: to sort a
 * whole vocabulary for every token would cost more than all other sampling.
 */
export function selectCut(values: Float64Array, measure: CutMeasure, target: number): number {
  let start = 0;
  let end = values.length;
  let passed = 0;
  for (;;) {
    const pivot = medianOfThree(values, start, end);
    // Larger values gather before `larger`, smaller ones from `smaller` on, equal ones between.
    let larger = start;
    let smaller = end;
    let largerMeasure = passed;
    for (let index = start; index < smaller;) {
      const value = values[index] ?? 0;
      if (value > pivot) {
        largerMeasure += measure === "count" ? 1 : value;
        swap(values, index++, larger++);
      } else if (value < pivot) swap(values, index, --smaller);
      else index++;
    }
    if (larger > start && largerMeasure >= target) end = larger;
    else {
      passed = largerMeasure + (smaller - larger) * (measure === "count" ? 1 : pivot);
      if (passed >= target || smaller === end) return pivot;
      start = smaller;
    }
  }
}

function swap(values: Float64Array, a: number, b: number): void {
  const value = values[a] ?? 0;
  values[a] = values[b] ?? 0;
  values[b] = value;
}

function medianOfThree(values: Float64Array, start: number, end: number): number {
  const first = values[start] ?? 0;
  const middle = values[(start + end) >> 1] ?? 0;
  const last = values[end - 1] ?? 0;
  return Math.max(Math.min(first, middle), Math.min(Math.max(first, middle), last));
}
