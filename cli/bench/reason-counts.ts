/** Kinds that are told apart at most; what a server says is its own affair, and could be another each time. */
const KINDS_MAX = 20;
const TOLD_MAX = 5;
const OTHER = "other";

/** Counts why requests failed, in a size that does not grow with them. */
export class ReasonCounts {
  readonly #counts = new Map<string, number>();

  add(reason: string, count = 1): void {
    const isKept = this.#counts.has(reason) || this.#counts.size < KINDS_MAX;
    const kind = isKept ? reason : OTHER;
    this.#counts.set(kind, (this.#counts.get(kind) ?? 0) + count);
  }

  /** By reason; behind the twentieth kind all are `other`. */
  toRecord(): Record<string, number> {
    return Object.fromEntries(this.#counts);
  }
}

/** Those of several together, as bounded as each; the most frequent ones keep their names. */
export function mergeCounts(all: readonly Readonly<Record<string, number>>[]) {
  const sums = new Map<string, number>();
  for (const counts of all) {
    for (const [reason, count] of Object.entries(counts)) {
      sums.set(reason, (sums.get(reason) ?? 0) + count);
    }
  }
  const merged = new ReasonCounts();
  for (const [reason, count] of [...sums].toSorted(([, a], [, b]) => b - a)) {
    merged.add(reason, count);
  }
  return merged.toRecord();
}

/** Writes how many requests failed and the most frequent reasons: `9 failed: 400 invalid_value 9`. */
export function failuresText(failed: number, failures: Readonly<Record<string, number>>): string {
  const reasons = Object.entries(failures)
    .filter(([reason]) => reason !== OTHER)
    .toSorted(([, a], [, b]) => b - a);
  const told = reasons.slice(0, TOLD_MAX).map(([reason, count]) => `${reason} ${count}`);
  const untold = reasons.slice(TOLD_MAX).reduce((sum, [, count]) => sum + count, 0);
  const rest = untold + (failures[OTHER] ?? 0);
  if (rest > 0) told.push(`for other reasons ${rest}`);
  return `${failed} failed${told.length === 0 ? "" : `: ${told.join(", ")}`}`;
}
