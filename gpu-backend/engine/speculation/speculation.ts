import { assert } from "../../../src/base/assert.ts";
import type { StepForecast } from "../../../src/step-cost/step-model.ts";
import type { BatchRow } from "../batch.ts";
import type { KvCache } from "../kv-cache/kv-cache.ts";
import type { Sequence } from "../sequence.ts";
import type { StepBudget } from "../step-budget.ts";
import { Acceptance } from "./acceptance.ts";
import { DraftCounter, type DraftStatistics } from "./draft-counter.ts";
import { draftLengths } from "./draft-lengths.ts";
import { draftDepth, type DraftWish } from "./draft-wishes.ts";
import { Probe } from "./probe.ts";
import { type Guess, SequenceGuesses } from "./sequence-guesses.ts";

/** How outputs are guessed. */
export interface SpeculationOptions {
  /** What a text says already is guessed to be said again. Else only what is offered is verified. */
  readonly looksUp: boolean;
  /** A draft model is asked where there is no long match; what it says is offered. */
  readonly drafts?: boolean;
  /** Guesses that one step verifies of one sequence at most; at least 1. */
  readonly draftTokensMax: number;
}

/** Whether drafting pays again is looked at in one of so many steps. */
const STEPS_PER_IDLE_LOOK = 8;
/** Of such looks, every so many end in a probe: few, as a draft model has to read all of a text for it. */
const DRAFT_PROBE_LOOKS = { first: 32, max: 512 };
const PROBE_DRAFT_TOKENS = 2;

/** What a step has room for. */
export interface DraftRoom {
  readonly kvCache: KvCache;
  readonly budget: StepBudget;
}

/**
 * Guesses what sequences that decode will say, and has steps verify it where that pays.
 *
 * Drafts take only what a planned step has left: of its tokens, of its time, and of the free blocks. They
 * displace nobody, and what does not hold leaves nothing behind.
 */
export class Speculation {
  readonly #options: SpeculationOptions;
  readonly #forecast: StepForecast | undefined;
  readonly #all = new Acceptance();
  readonly #counter: DraftCounter;
  readonly #guesses = new Map<string, SequenceGuesses>();
  readonly #draftProbe = new Probe(DRAFT_PROBE_LOOKS);
  /** Whether drafting paid when that was last looked at. */
  #isDrafting = true;
  #idleSteps = 0;

  /** Without a forecast all that is guessed is verified. */
  constructor(options: SpeculationOptions, forecast: StepForecast | undefined) {
    assert(options.draftTokensMax >= 1, "Who speculates verifies something");
    this.#options = options;
    this.#forecast = forecast;
    this.#counter = new DraftCounter(options.draftTokensMax);
  }

  get statistics(): DraftStatistics {
    return this.#counter.statistics;
  }

  /** Sequences that something is kept of. */
  get sequenceCount(): number {
    return this.#guesses.size;
  }

  /**
   * Takes a guess made elsewhere of what follows the known tokens of a sequence. It is void once the
   * sequence has gone on.
   */
  offer(sequence: Sequence, tokenIds: readonly number[]): void {
    this.#of(sequence).offer({ kind: "draft-model", tokenIds }, sequence.knownTokens);
  }

  /** Adds drafts to the rows of those that decode, where it pays; the others stay as they are. */
  extendRows(
    rows: readonly BatchRow[],
    running: readonly Sequence[],
    room: DraftRoom,
  ): readonly BatchRow[] {
    const byId = new Map(running.map((sequence) => [sequence.id, sequence]));
    const decodes = rows.flatMap((row, index) => {
      const sequence = byId.get(row.sequenceId);
      if (sequence === undefined || !isDecode(row)) return [];
      return [{ index, row, sequence, guesses: this.#of(sequence) }];
    });
    const guessed = decodes.map(({ sequence, guesses }) => ({
      guesses,
      guess: this.#guessOf(sequence, guesses),
      computedTokens: sequence.computedTokens,
    }));
    // Most steps of most texts: what to verify need not be weighed.
    if (guessed.every(({ guess }) => guess === undefined)) return rows;
    const wanted = this.#wantedLengths(guessed);
    const extended = [...rows];
    for (const [index, decode] of decodes.entries()) {
      const tokenIds = guessed[index]?.guess?.tokenIds.slice(0, wanted[index]) ?? [];
      extended[decode.index] = extendRow(decode, tokenIds, room);
    }
    return extended;
  }

  /**
   * Whom a draft model is to be asked for before the next step, and for how many tokens. Nobody while that
   * does not pay, but for one now and then to see whether it would; and one until it has shown what it is
   * worth, since it has to read all of a text before its first guess.
   */
  draftWishes(running: readonly Sequence[], draft: StepForecast): DraftWish[] {
    if (this.#options.drafts !== true || this.#forecast === undefined) return [];
    this.#idleSteps = this.#isDrafting ? 0 : (this.#idleSteps + 1) % STEPS_PER_IDLE_LOOK;
    if (this.#idleSteps !== 0) return [];
    const decodes = running.filter((each) => each.uncomputedTokens === 1 && each.outputTokens > 0);
    const candidates = decodes.map((sequence) => ({
      computedTokens: sequence.computedTokens,
      draftTokensMax: this.#of(sequence).hasLongMatch(sequence.knownTokens)
        ? 0
        : Math.min(this.#options.draftTokensMax, sequence.draftTokensMax),
      acceptanceRatio: this.#of(sequence).ratioOf("draft-model"),
    }));
    if (candidates.every(({ draftTokensMax }) => draftTokensMax === 0)) return [];
    const forecasts = { target: this.#forecast, draft };
    const depth = draftDepth(candidates, forecasts);
    this.#isDrafting = depth > 0;
    const isProbe = depth === 0 && this.#draftProbe.isDue();
    if (depth > 0) this.#draftProbe.reset();
    const wishes = decodes.flatMap((sequence, index): DraftWish[] => {
      const draftTokens = Math.min(
        isProbe ? PROBE_DRAFT_TOKENS : depth,
        candidates[index]?.draftTokensMax ?? 0,
      );
      const { id, tokens, request, outputTokens: outputIndex } = sequence;
      if (draftTokens === 0) return [];
      return [{ id, tokens, sampling: request.sampling, outputIndex, draftTokens }];
    });
    return isProbe || !this.#all.isKnown("draft-model") ? wishes.slice(0, 1) : wishes;
  }

  /** Learns from a committed row how many of its drafts held. */
  record(row: BatchRow, chosenTokens: number): void {
    const draftTokens = row.drafts?.tokenIds.length ?? 0;
    if (draftTokens === 0) return;
    // Behind the last draft that held comes one more token that was not guessed.
    const acceptedTokens = Math.max(0, chosenTokens - 1);
    this.#counter.count(draftTokens, acceptedTokens);
    this.#guesses.get(row.sequenceId)?.record(draftTokens, acceptedTokens);
  }

  /** Lets go of a sequence that ended. */
  forget(id: string): void {
    this.#guesses.delete(id);
  }

  #of(sequence: Sequence): SequenceGuesses {
    const kept = this.#guesses.get(sequence.id);
    if (kept !== undefined) return kept;
    const guesses = new SequenceGuesses(sequence.tokens, {
      acceptance: new Acceptance(this.#all),
      looksUp: this.#options.looksUp,
    });
    this.#guesses.set(sequence.id, guesses);
    return guesses;
  }

  /** Nothing that ends the output is guessed: behind it there is nothing to verify. */
  #guessOf(sequence: Sequence, guesses: SequenceGuesses): Guess | undefined {
    const tokensMax = Math.min(this.#options.draftTokensMax, sequence.draftTokensMax);
    const guess = guesses.guess(sequence.knownTokens, tokensMax);
    if (guess === undefined) return undefined;
    const stop = guess.tokenIds.findIndex((tokenId) => sequence.isStop(tokenId));
    return stop === -1 ? guess : { ...guess, tokenIds: guess.tokenIds.slice(0, stop) };
  }

  #wantedLengths(
    guessed: readonly {
      readonly guesses: SequenceGuesses;
      readonly guess: Guess | undefined;
      readonly computedTokens: number;
    }[],
  ): number[] {
    if (this.#forecast === undefined) {
      return guessed.map(({ guess }) => guess?.tokenIds.length ?? 0);
    }
    const lengths = draftLengths(
      guessed.map(({ guess, guesses, computedTokens }) => ({
        computedTokens,
        guessTokens: guess?.tokenIds.length ?? 0,
        acceptanceRatio: guess === undefined ? 0 : guesses.ratioOf(guess.kind),
        isOn: guesses.isOn,
      })),
      this.#forecast,
    );
    return guessed.map(({ guess, guesses }, index) => guesses.decide(guess, lengths[index] ?? 0));
  }
}

function isDecode(row: BatchRow): boolean {
  return row.tokens.length === 1 && row.choice !== undefined && row.scoring === undefined;
}

/** As many of these as the step has room for, in what is left of a block if there is no other. */
function extendRow(
  { row, sequence }: { readonly row: BatchRow; readonly sequence: Sequence },
  tokenIds: readonly number[],
  { kvCache, budget }: DraftRoom,
): BatchRow {
  const { id, knownTokens } = sequence;
  let tokens = budget.draftTokensFor(sequence, tokenIds.length);
  if (tokens > 0 && !kvCache.extend(id, knownTokens + tokens)) {
    tokens = Math.min(tokens, kvCache.heldBlocks(id).length * kvCache.blockTokens - knownTokens);
  }
  if (tokens <= 0) return row;
  budget.takeDrafts(sequence, tokens);
  const blockTable = kvCache.blockTable(id, knownTokens + tokens);
  return sequence.withDrafts(row, tokenIds.slice(0, tokens), blockTable);
}
