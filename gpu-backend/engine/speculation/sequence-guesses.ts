import { type Acceptance, type GuessKind, LONG_MATCH_TOKENS } from "./acceptance.ts";
import { Probe } from "./probe.ts";
import { PromptLookup } from "./prompt-lookup.ts";

/** Tokens that may come next, in order. */
export interface Guess {
  readonly kind: GuessKind;
  readonly tokenIds: readonly number[];
}

/** After so many steps without a draft, though there was a guess, one guess is verified to learn from. */
const PROBE_STEPS = { first: 16, max: 512 };

/** What is guessed of one sequence, how often that held, and whether it is being verified. */
export class SequenceGuesses {
  readonly #acceptance: Acceptance;
  readonly #lookup: PromptLookup | undefined;
  #offered: { readonly guess: Guess; readonly knownTokens: number } | undefined;
  /** What the drafts of the pending step are, or would be. */
  #kind: GuessKind | undefined;
  #isOn = true;
  #lookedAtTokens = 0;
  #isLongMatch = false;
  readonly #probe = new Probe(PROBE_STEPS);

  /** `tokens` is the sequence's own list and may grow. */
  constructor(
    tokens: readonly number[],
    options: { readonly acceptance: Acceptance; readonly looksUp: boolean },
  ) {
    this.#acceptance = options.acceptance;
    this.#lookup = options.looksUp ? new PromptLookup(tokens) : undefined;
  }

  /** Whether guesses were verified when that was last decided; a new sequence is taken to have some. */
  get isOn(): boolean {
    return this.#isOn;
  }

  ratioOf(kind: GuessKind): number {
    return this.#acceptance.ratioOf(kind);
  }

  /** A guess of what follows so many known tokens. */
  offer(guess: Guess, knownTokens: number): void {
    this.#offered = { guess, knownTokens };
  }

  /** Whether what the text says already is a sure enough guess behind so many known tokens. */
  hasLongMatch(knownTokens: number): boolean {
    if (knownTokens !== this.#lookedAtTokens) {
      this.#lookedAtTokens = knownTokens;
      this.#isLongMatch = (this.#lookup?.guess(1)?.matchTokens ?? 0) >= LONG_MATCH_TOKENS;
    }
    return this.#isLongMatch;
  }

  /** The most promising guess, at most so many tokens. An offer is used once, or is void. */
  guess(knownTokens: number, tokensMax: number): Guess | undefined {
    const offered = this.#offered;
    this.#offered = undefined;
    const guesses: Guess[] = [];
    const found = this.#lookup?.guess(tokensMax);
    if (found !== undefined) {
      const kind = found.matchTokens >= LONG_MATCH_TOKENS ? "long-match" : "short-match";
      guesses.push({ kind, tokenIds: found.tokenIds });
    }
    if (offered?.knownTokens === knownTokens) {
      const { kind, tokenIds } = offered.guess;
      guesses.push({ kind, tokenIds: tokenIds.slice(0, tokensMax) });
    }
    const [first, second] = guesses;
    const best =
      first !== undefined && second !== undefined && this.#isSurer(second, first) ? second : first;
    this.#kind = best?.kind;
    return best;
  }

  /** How many tokens of a guess are verified, where so many would pay: one now and then if none does. */
  decide(guess: Guess | undefined, payingTokens: number): number {
    if (guess === undefined || guess.tokenIds.length === 0) return 0;
    this.#isOn = payingTokens > 0;
    if (!this.#isOn) return this.#probe.isDue() ? 1 : 0;
    this.#probe.reset();
    return payingTokens;
  }

  /** Of the drafts of a committed step so many held. */
  record(draftTokens: number, acceptedTokens: number): void {
    if (this.#kind !== undefined) this.#acceptance.record(this.#kind, draftTokens, acceptedTokens);
    // A probe that holds is followed soon by another one: it takes a few to be believed again.
    if (!this.#isOn && acceptedTokens === draftTokens) this.#probe.reset();
  }

  #isSurer(a: Guess, b: Guess): boolean {
    return this.ratioOf(a.kind) > this.ratioOf(b.kind);
  }
}
