/** Throws when `condition` is false. A failed assertion is a bug of ours, never a client's. */
export function assert(condition: boolean, message: string): asserts condition {
  if (!condition) throw new Error(`Assertion failed: ${message}`);
}

/** Marks a branch that the types rule out. Reaching it means a value escaped its schema. */
export function unreachable(value: never): never {
  throw new Error(`Unreachable value: ${String(value)}`);
}
