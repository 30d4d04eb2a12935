/** Where two pieces of data first differ, and in what. */
export interface Difference {
  /** Such as `0.rejection.reason`; empty where the whole differs. */
  readonly path: string;
  readonly a: unknown;
  readonly b: unknown;
}

/** Finds where two pieces of plain data first differ; `undefined` where they are equal. */
export function firstDifference(a: unknown, b: unknown, path = ""): Difference | undefined {
  if (Object.is(a, b)) return undefined;
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null) {
    return { path, a, b };
  }
  for (const key of new Set([...Object.keys(a), ...Object.keys(b)])) {
    const at = path === "" ? key : `${path}.${key}`;
    const found = firstDifference(Reflect.get(a, key), Reflect.get(b, key), at);
    if (found !== undefined) return found;
  }
  return undefined;
}
