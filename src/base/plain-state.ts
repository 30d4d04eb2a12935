import { assert } from "./assert.ts";

/**
 * Copies state, so that what happens afterwards changes only one of the two.
 *
 * A stateful core keeps all it remembers in one plain object and is handed it back to go on from
 * there: a snapshot is then a copy, and no field can be forgotten in it. Throws on anything that is
 * not data, such as an instance of a class.
 */
export function copyState<State>(state: State): State {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- a copy is what it copies
  return copyOf(state) as State;
}

function copyOf(value: unknown): unknown {
  if (typeof value !== "object" || value === null) {
    assert(typeof value !== "function", "state holds no functions");
    return value;
  }
  if (Array.isArray(value)) return value.map(copyOf);
  if (value instanceof Map) {
    return new Map([...value].map(([key, entry]: [unknown, unknown]) => [key, copyOf(entry)]));
  }
  assert(Object.getPrototypeOf(value) === Object.prototype, "state holds no instances of classes");
  return Object.fromEntries(Object.entries(value).map(([key, entry]) => [key, copyOf(entry)]));
}
