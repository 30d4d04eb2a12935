import type { Random } from "../../src/base/random.ts";

/** Returns the elements in random order. */
export function shuffle<Element>(elements: readonly Element[], random: Random): readonly Element[] {
  const keyed = elements.map((element) => ({ element, key: random() }));
  return keyed.toSorted((a, b) => a.key - b.key).map(({ element }) => element);
}
