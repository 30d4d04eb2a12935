/** What guesses are told apart by: they hold more or less often. */
export type GuessKind = "short-match" | "long-match" | "draft-model";

export const GUESS_KINDS: readonly GuessKind[] = ["short-match", "long-match", "draft-model"];

/** From so many tokens on a match is a long one. */
export const LONG_MATCH_TOKENS = 6;

/** What a guess is believed to be worth before any of its kind was verified, and how firmly. */
const PRIOR: Readonly<Record<GuessKind, number>> = {
  "short-match": 0.5,
  "long-match": 0.8,
  "draft-model": 0.7,
};
const PRIOR_WEIGHT = 4;
/** What is left of the weight of a verification behind the next one of its kind. */
const KEPT_OWN = 0.85;
const KEPT_ALL = 0.98;
/** What all others have shown counts for a request as much as so many guesses of its own. */
const OTHERS_WEIGHT = 3;

interface Tally {
  held: number;
  tried: number;
}

/**
 * How often the next guessed token is the one that is then chosen, given that those before it were: of
 * one request, or of all together. Later verifications count more.
 */
export class Acceptance {
  readonly #tallies = new Map<GuessKind, Tally>();
  readonly #all: Acceptance | undefined;

  /** `all` is what every request adds to, and what stands in for what a new one has not shown. */
  constructor(all?: Acceptance) {
    this.#all = all;
  }

  /** 0 to 1, never either. */
  ratioOf(kind: GuessKind): number {
    const { held, tried } = this.#tallies.get(kind) ?? { held: 0, tried: 0 };
    const weight = this.#all === undefined ? PRIOR_WEIGHT : OTHERS_WEIGHT;
    const prior = this.#all?.ratioOf(kind) ?? PRIOR[kind];
    return (held + weight * prior) / (tried + weight);
  }

  /** Whether more was verified of a kind than what it was believed to be worth before weighs. */
  isKnown(kind: GuessKind): boolean {
    return (this.#tallies.get(kind)?.tried ?? 0) > PRIOR_WEIGHT;
  }

  /** Of `proposed` guesses the first `accepted` held; the one behind them did not, the rest is unknown. */
  record(kind: GuessKind, proposed: number, accepted: number): void {
    if (proposed === 0) return;
    const tally = this.#tallies.get(kind) ?? { held: 0, tried: 0 };
    const kept = this.#all === undefined ? KEPT_ALL : KEPT_OWN;
    tally.held = kept * tally.held + accepted;
    tally.tried = kept * tally.tried + Math.min(proposed, accepted + 1);
    this.#tallies.set(kind, tally);
    this.#all?.record(kind, proposed, accepted);
  }
}
