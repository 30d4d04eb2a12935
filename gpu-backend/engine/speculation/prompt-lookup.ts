/** Tokens that were said before: what followed them then is guessed to follow now. */
export interface LookedUp {
  readonly tokenIds: readonly number[];
  /** How many of the last tokens are the same as before the place it was copied from. */
  readonly matchTokens: number;
}

/** Shorter matches are mostly chance, and break what has a form (tool calls, JSON). */
const MATCH_TOKENS_MIN = 3;
/** A longer match is no surer. */
const MATCH_TOKENS_MAX = 16;
/** Places that are compared for one guess, the latest first. */
const PLACES_MAX = 16;

/**
 * Guesses how a text goes on from what it says already (prompt lookup, Saxena 2023): where its last tokens
 * stood before, their longest match decides, the latest among equals.
 *
 * The places of all runs of three tokens are kept by their hash. Tokens are taken in once each, so a guess
 * costs next to nothing, and what is kept grows with the sequence.
 */
export class PromptLookup {
  readonly #tokens: readonly number[];
  /** By hash, the last place where such a run ends. */
  readonly #lastPlaces = new Map<number, number>();
  /** For each place the one before it with the same hash, or -1. */
  readonly #placesBefore: number[] = [];

  /** `tokens` is the sequence's own list and may grow; what is in it never changes. */
  constructor(tokens: readonly number[]) {
    this.#tokens = tokens;
  }

  /** What is guessed to come next, at most so many tokens; `undefined` where the end is new. */
  guess(tokensMax: number): LookedUp | undefined {
    const end = this.#tokens.length;
    if (tokensMax < 1 || end <= MATCH_TOKENS_MIN) return undefined;
    this.#takeIn(end - 1);
    let best = -1;
    let matchTokens = MATCH_TOKENS_MIN - 1;
    let place = this.#lastPlaces.get(this.#hashAt(end - 1)) ?? -1;
    for (let tried = 0; place >= 0 && tried < PLACES_MAX; tried++) {
      const length = this.#matchAt(place, end - 1);
      if (length > matchTokens) [best, matchTokens] = [place, length];
      place = this.#placesBefore[place] ?? -1;
    }
    return best < 0 ? undefined : { tokenIds: this.#copy(best + 1, tokensMax), matchTokens };
  }

  /** Keeps the places of runs that end before `limit`. */
  #takeIn(limit: number): void {
    for (let place = this.#placesBefore.length; place < limit; place++) {
      const hash = this.#hashAt(place);
      this.#placesBefore.push(this.#lastPlaces.get(hash) ?? -1);
      if (place >= MATCH_TOKENS_MIN - 1) this.#lastPlaces.set(hash, place);
    }
  }

  #hashAt(place: number): number {
    let hash = 0;
    for (let back = 0; back < MATCH_TOKENS_MIN; back++) {
      hash = Math.imul(hash ^ (this.#tokens[place - back] ?? -1), 0x9e3779b1);
      hash ^= hash >>> 15;
    }
    return hash;
  }

  /** How many tokens up to and with this place equal those up to the end; equal hashes prove none. */
  #matchAt(place: number, end: number): number {
    let length = 0;
    while (
      length < MATCH_TOKENS_MAX &&
      place - length >= 0 &&
      this.#tokens[place - length] === this.#tokens[end - length]
    ) {
      length += 1;
    }
    return length;
  }

  /** A text that repeats itself is copied beyond its own end. */
  #copy(start: number, count: number): number[] {
    const copied: number[] = [];
    for (let index = 0; index < count; index++) {
      const source = start + index;
      const token = this.#tokens[source] ?? copied[source - this.#tokens.length];
      if (token === undefined) break;
      copied.push(token);
    }
    return copied;
  }
}
