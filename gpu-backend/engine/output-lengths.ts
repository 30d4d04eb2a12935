/** Whose output it is, how long it is so far and may become. */
export interface OutputProgress {
  readonly tenant: string;
  readonly outputTokens: number;
  readonly outputTokensMax: number;
}

/** Outputs remembered of each tenant, and of all together. */
const OUTPUTS_MAX = 128;
/** Tenants remembered; whoever comes after that takes the place of the one longest silent. */
const TENANTS_MAX = 256;
/** Fewer outputs say too little to count on. */
const OUTPUTS_MIN = 8;

/**
 * Learns how long outputs become, from those that came to their own end.
 *
 * An output is expected to become as long as half of the past ones that were longer than it is
 * already: its tenant's if there are enough, or else everybody's. Where nothing is known that is
 * its limit, so that a forecast begins cautious.
 */
export class OutputLengths {
  readonly #byTenant = new Map<string, number[]>();
  readonly #all: number[] = [];

  /** Adds the length of an output that is complete. */
  record(tenant: string, outputTokens: number): void {
    const own = this.#byTenant.get(tenant) ?? [];
    this.#byTenant.delete(tenant);
    const [silent] = this.#byTenant.keys();
    if (this.#byTenant.size >= TENANTS_MAX && silent !== undefined) this.#byTenant.delete(silent);
    this.#byTenant.set(tenant, own);
    for (const lengths of [own, this.#all]) {
      lengths.push(outputTokens);
      if (lengths.length > OUTPUTS_MAX) lengths.shift();
    }
  }

  /** How many tokens the output is expected to have in the end: more than now, its limit at most. */
  expectedTokens({ tenant, outputTokens, outputTokensMax }: OutputProgress): number {
    const histories = [this.#byTenant.get(tenant) ?? [], this.#all];
    const longer = histories
      .map((lengths) => lengths.filter((length) => length > outputTokens))
      .find((lengths) => lengths.length >= OUTPUTS_MIN);
    return Math.min(outputTokensMax, longer === undefined ? outputTokensMax : medianOf(longer));
  }
}

/** The upper one of the two in the middle. */
function medianOf(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? Infinity;
}
