/** Which techniques were on, by name. */
export type Switches = Readonly<Record<string, boolean>>;

/**
 * Counts how often each two switches were seen together in each two positions: a fault of two techniques
 * together shows only where both positions were there.
 */
export class SwitchPairs {
  readonly #counts = new Map<string, number>();

  count(switches: Switches): void {
    for (const pair of pairsOf(switches)) {
      this.#counts.set(pair, (this.#counts.get(pair) ?? 0) + 1);
    }
  }

  /** The pairs of positions that were seen less often than `times`, of all that these switches have. */
  rarerThan(times: number, names: readonly string[]): string[] {
    const on = Object.fromEntries(names.map((name) => [name, true]));
    const wanted = new Set(
      pairsOf(on).flatMap((pair) => {
        const [first = "", second = ""] = pair.split(" & ");
        return [`${first} & ${second}`, `no ${first} & ${second}`].flatMap((both) => [
          both,
          both.replace(/& (.*)$/, "& no $1"),
        ]);
      }),
    );
    return [...wanted].filter((pair) => (this.#counts.get(pair) ?? 0) < times);
  }
}

function pairsOf(switches: Switches): string[] {
  const positions = Object.entries(switches).map(([name, isOn]) => (isOn ? name : `no ${name}`));
  return positions.flatMap((first, index) =>
    positions.slice(index + 1).map((second) => `${first} & ${second}`),
  );
}
