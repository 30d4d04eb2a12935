/**
 * Names, in lower case, by which replicas of one pool are known to serve models: what their configuration or they
 * themselves list. Reckoned from the replicas' states and never stored; each replica counts its own.
 */
export class ListedNames {
  readonly #counts = new Map<string, number>();

  /** Whether any replica in use lists it. */
  has(name: string): boolean {
    return this.#counts.has(name);
  }

  /** A replica lists others than before. */
  replace(before: Iterable<string>, after: Iterable<string>): void {
    for (const name of after) this.#counts.set(name, (this.#counts.get(name) ?? 0) + 1);
    for (const name of before) {
      const count = this.#counts.get(name) ?? 0;
      if (count > 1) this.#counts.set(name, count - 1);
      else this.#counts.delete(name);
    }
  }

  /** How many replicas list each. */
  counts(): ReadonlyMap<string, number> {
    return this.#counts;
  }
}
