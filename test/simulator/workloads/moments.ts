/** The mean of some numbers. */
export function meanOf(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

/** Standard deviation over mean. */
export function cvOf(values: readonly number[]): number {
  const mean = meanOf(values);
  return Math.sqrt(meanOf(values.map((value) => (value - mean) ** 2))) / mean;
}

/** Pearson's correlation of two lists of equal length. */
export function correlationOf(xs: readonly number[], ys: readonly number[]): number {
  const xMean = meanOf(xs);
  const yMean = meanOf(ys);
  const covariance = meanOf(xs.map((x, index) => (x - xMean) * ((ys[index] ?? 0) - yMean)));
  const variance =
    meanOf(xs.map((x) => (x - xMean) ** 2)) * meanOf(ys.map((y) => (y - yMean) ** 2));
  return covariance / Math.sqrt(variance);
}
