import { type Acceptance, type GuessKind, LONG_MATCH_TOKENS } from "./acceptance.ts";
import { PromptLookup } from "./prompt-lookup.ts";

/** Tokens that may come next, in order. */
export interface Guess {
  readonly kind: GuessKind;
  readonly tokenIds: readonly number[];
}

/** After so many steps without a draft, though there was a guess, one guess is verified to learn from. */
const FIRST_PROBE_STEPS = 16;
/** Each probe that changes nothing doubles the wait for the next one, up to this. */
const PROBE_STEPS_MAX = 512;

/** What is guessed of one sequence, how often that held, and whether it is being verified. */
export class SequenceGuesses {
  readonly #acceptance: Acceptance;
  readonly #lookup: PromptLookup | undefined;
  #offered: { readonly guess: Guess; readonly knownTokens: number } | undefined;
  /** What the drafts of the pending step are, or would be. */
  #kind: GuessKind | undefined;
  #isOn = true;
  #stepsOff = 0;
  #probeSteps = FIRST_PROBE_STEPS;

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
    if (this.#isOn) {
      this.#stepsOff = 0;
      this.#probeSteps = FIRST_PROBE_STEPS;
      return payingTokens;
    }
    this.#stepsOff += 1;
    if (this.#stepsOff < this.#probeSteps) return 0;
    this.#stepsOff = 0;
    this.#probeSteps = Math.min(PROBE_STEPS_MAX, 2 * this.#probeSteps);
    return 1;
  }

  /** Of the drafts of a committed step so many held. */
  record(draftTokens: number, acceptedTokens: number): void {
    if (this.#kind !== undefined) this.#acceptance.record(this.#kind, draftTokens, acceptedTokens);
  }

  #isSurer(a: Guess, b: Guess): boolean {
    return this.ratioOf(a.kind) > this.ratioOf(b.kind);
  }
}
