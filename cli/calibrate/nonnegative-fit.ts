/** Terms of one sample, as many as there are coefficients, and what was measured. */
export interface FitSample {
  readonly terms: readonly number[];
  readonly value: number;
}

/**
 * Finds coefficients, none below 0, that miss the samples least: the sum of squares of misses relative to what was
 * measured. Of so few coefficients every set of those that are not 0 is tried, so the answer is exact.
 */
export function nonnegativeFit(samples: readonly FitSample[], coefficients: number): number[] {
  let best = Array.from({ length: coefficients }, () => 0);
  let leastMiss = Infinity;
  for (let set = 1; set < 2 ** coefficients; set += 1) {
    const used = best.map((_, index) => index).filter((index) => (set >> index) % 2 === 1);
    const solved = solve(samples, used);
    if (solved === undefined || solved.some((value) => !(value >= 0))) continue;
    const all = best.map((_, index) => solved[used.indexOf(index)] ?? 0);
    const miss = samples.reduce((sum, { terms, value }) => {
      const told = terms.reduce((total, term, index) => total + term * (all[index] ?? 0), 0);
      return sum + (told / value - 1) ** 2;
    }, 0);
    // A coefficient more never misses more, and one that is not needed is none.
    if (miss < leastMiss * (1 - 1e-9)) {
      leastMiss = miss;
      best = all;
    }
  }
  return best;
}

/** Solves the normal equations of some of the coefficients; `undefined`: the samples do not tell them apart. */
function solve(samples: readonly FitSample[], used: readonly number[]): number[] | undefined {
  // Terms differ by ten orders of magnitude; columns of one size keep the elimination exact enough.
  const sizes = used.map((index) =>
    Math.sqrt(samples.reduce((sum, each) => sum + termOf(each, index) ** 2, 0)),
  );
  if (sizes.some((size) => size === 0)) return undefined;
  const rows = used.map((row, at) => [
    ...used.map((column, other) =>
      samples.reduce(
        (sum, each) =>
          sum +
          (termOf(each, row) / (sizes[at] ?? 1)) * (termOf(each, column) / (sizes[other] ?? 1)),
        0,
      ),
    ),
    samples.reduce((sum, each) => sum + termOf(each, row) / (sizes[at] ?? 1), 0),
  ]);
  return eliminate(rows)?.map((value, at) => value / (sizes[at] ?? 1));
}

const termOf = ({ terms, value }: FitSample, index: number) => (terms[index] ?? 0) / value;

/** Gauss and Jordan with the largest pivot; each row ends with its right-hand side. */
function eliminate(rows: number[][]): number[] | undefined {
  const size = rows.length;
  for (let column = 0; column < size; column += 1) {
    const below = rows.slice(column).map((row) => Math.abs(row[column] ?? 0));
    const largest = Math.max(...below);
    if (largest < 1e-12) return undefined;
    const at = column + below.indexOf(largest);
    const [pivot, other] = [rows[at] ?? [], rows[column] ?? []];
    rows[at] = other;
    rows[column] = pivot.map((value) => value / (pivot[column] ?? 1));
    for (const [index, row] of rows.entries()) {
      if (index === column) continue;
      const factor = row[column] ?? 0;
      rows[index] = row.map((value, place) => value - factor * (rows[column]?.[place] ?? 0));
    }
  }
  return rows.map((row) => row[size] ?? 0);
}
