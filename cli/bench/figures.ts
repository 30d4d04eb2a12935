/** JSON has no infinity: what never came is `null`. */
export function finite(value: number): number | null {
  return Number.isFinite(value) ? value : null;
}

/** A share of nothing is absent. */
export function ratioOf(part: number, whole: number): number | null {
  return whole > 0 ? part / whole : null;
}
