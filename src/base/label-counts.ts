import { assert } from "./assert.ts";

/** How often something happened under such labels, as `withLabel` writes them. */
export type LabelCount = readonly [labels: string, count: number];

/**
 * Counts by label. Whoever counts sees to it that there are few; labels beyond the bound are counted
 * together under `otherLabels`, so that no sum is ever wrong.
 */
export class LabelCounts {
  readonly #counts = new Map<string, number>();
  readonly #labelsMax: number;
  readonly #otherLabels: string;

  constructor(labelsMax: number, otherLabels: string) {
    assert(labelsMax >= 1, "there is room for the others at least");
    this.#labelsMax = labelsMax;
    this.#otherLabels = otherLabels;
  }

  get size(): number {
    return this.#counts.size;
  }

  add(labels: string, count = 1): void {
    const known = this.#counts.get(labels);
    // The last place is kept for the others.
    const hasRoom = known !== undefined || this.#counts.size < this.#labelsMax - 1;
    if (hasRoom || labels === this.#otherLabels) this.#counts.set(labels, (known ?? 0) + count);
    else this.add(this.#otherLabels, count);
  }

  addAll(counts: Iterable<LabelCount>): void {
    for (const [labels, count] of counts) this.add(labels, count);
  }

  /** All counts, by labels in the order in which they were first seen. */
  list(): LabelCount[] {
    return [...this.#counts];
  }

  /** All counts, which begin anew. */
  take(): LabelCount[] {
    const counts = this.list();
    this.#counts.clear();
    return counts;
  }
}
