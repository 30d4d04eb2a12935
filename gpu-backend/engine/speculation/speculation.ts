import { assert } from "../../../src/base/assert.ts";
import type { StepForecast } from "../../../src/step-cost/step-model.ts";
import type { BatchRow } from "../batch.ts";
import type { KvCache } from "../kv-cache/kv-cache.ts";
import type { Sequence } from "../sequence.ts";
import type { StepBudget } from "../step-budget.ts";
import { Acceptance } from "./acceptance.ts";
import { DraftCounter, type DraftStatistics } from "./draft-counter.ts";
import { draftLengths } from "./draft-lengths.ts";
import { type Candidate, draftDepth, type DraftForecasts, type DraftWish } from "./draft-wishes.ts";
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

/** Whether drafting pays again is looked at after so many steps: it rarely has, unless fewer run than then. */
const LOOK_STEPS = { first: 8, max: 64 };
/** After so many it is tried: seldom, as a draft model has to read all of a text for it. */
const DRAFT_PROBE_STEPS = { first: 256, max: 4096 };
const PROBE_DRAFT_TOKENS = 2;
/**
 * While drafting pays, every so many steps go without, the first ones soon: if all steps verify alike, they do
 * not tell what one that verifies nothing takes, and a belief that was wrong at the start would stay.
 */
const PLAIN_STEPS = { first: 4, max: 32 };

/** What a step has room for. */
export interface DraftRoom {
  readonly kvCache: KvCache;
  readonly budget: StepBudget;
}

/** A row of one that decodes, and what is guessed of it. */
interface Decode {
  /** Among all rows of the step. */
  readonly index: number;
  readonly row: BatchRow;
  readonly sequence: Sequence;
  readonly guesses: SequenceGuesses;
  readonly guess: Guess | undefined;
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
  readonly #draftLook = new Probe(LOOK_STEPS);
  readonly #draftProbe = new Probe(DRAFT_PROBE_STEPS);
  readonly #plainProbe = new Probe(PLAIN_STEPS);
  /** Whether drafting paid when that was last looked at; absent: it never was. */
  #isDrafting: boolean | undefined;
  /** How many ran then. */
  #lookedAtRunning = 0;

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
    const byId = new Map<string, Sequence>();
    for (const sequence of running) byId.set(sequence.id, sequence);
    const decodes: Decode[] = [];
    let hasGuess = false;
    for (const [index, row] of rows.entries()) {
      const sequence = isDecode(row) ? byId.get(row.sequenceId) : undefined;
      if (sequence === undefined) continue;
      const guesses = this.#of(sequence);
      const guess = this.#guessOf(sequence, guesses);
      if (guess !== undefined) hasGuess = true;
      decodes.push({ index, row, sequence, guesses, guess });
    }
    // Most steps of most texts: what to verify need not be weighed.
    if (!hasGuess) return rows;
    const wanted = this.#wantedLengths(decodes);
    const extended = [...rows];
    for (const [place, decode] of decodes.entries()) {
      const tokenIds = decode.guess?.tokenIds.slice(0, wanted[place]) ?? [];
      extended[decode.index] = extendRow(decode, tokenIds, room);
    }
    return extended;
  }

  /**
   * Whom a draft model is to be asked for before the next step, and for how many tokens. Nobody while that
   * does not pay, but for one now and then to see whether it would; nobody now and then while it pays, to see
   * whether it does; and one until it has shown what it is worth, since it has to read all of a text before
   * its first guess.
   */
  draftWishes(running: readonly Sequence[], draft: StepForecast): DraftWish[] {
    if (this.#options.drafts !== true || this.#forecast === undefined) return [];
    const isProbe = this.#isDrafting === false && this.#draftProbe.isDue();
    if (!isProbe && this.#isDrafting === false && !this.#isLookDue(running.length)) return [];
    this.#lookedAtRunning = running.length;
    const decodes = running.filter((each) => each.uncomputedTokens === 1 && each.outputTokens > 0);
    const candidates = decodes.map((sequence) => ({
      computedTokens: sequence.computedTokens,
      draftTokensMax: this.#of(sequence).hasLongMatch(sequence.knownTokens)
        ? 0
        : Math.min(this.#options.draftTokensMax, sequence.draftTokensMax),
      acceptanceRatio: this.#of(sequence).ratioOf("draft-model"),
    }));
    if (candidates.every(({ draftTokensMax }) => draftTokensMax === 0)) return [];
    const depth = this.#depthFor(candidates, { target: this.#forecast, draft });
    if (depth > 0 && this.#plainProbe.isDue()) return [];
    const wishes = decodes.flatMap((sequence, index): DraftWish[] => {
      const draftTokens = Math.min(
        isProbe ? Math.max(depth, PROBE_DRAFT_TOKENS) : depth,
        candidates[index]?.draftTokensMax ?? 0,
      );
      const { id, tokens, request, outputTokens: outputIndex } = sequence;
      if (draftTokens === 0) return [];
      return [{ id, tokens, sampling: request.sampling, outputIndex, draftTokens }];
    });
    return depth === 0 || !this.#all.isKnown("draft-model") ? wishes.slice(0, 1) : wishes;
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

  #depthFor(candidates: readonly Candidate[], forecasts: DraftForecasts): number {
    const depth = draftDepth(candidates, forecasts, this.#isDrafting === true);
    this.#isDrafting = depth > 0;
    if (depth === 0) {
      this.#plainProbe.reset();
    } else {
      this.#draftProbe.reset();
      this.#draftLook.reset();
    }
    return depth;
  }

  #isLookDue(runningCount: number): boolean {
    if (runningCount < this.#lookedAtRunning) {
      this.#lookedAtRunning = runningCount;
      this.#draftLook.reset();
    }
    return this.#draftLook.isDue();
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

  #wantedLengths(decodes: readonly Decode[]): number[] {
    if (this.#forecast === undefined) {
      return decodes.map(({ guess }) => guess?.tokenIds.length ?? 0);
    }
    const lengths = draftLengths(
      decodes.map(({ guess, guesses, sequence }) => ({
        computedTokens: sequence.computedTokens,
        guessTokens: guess?.tokenIds.length ?? 0,
        acceptanceRatio: guess === undefined ? 0 : guesses.ratioOf(guess.kind),
        isOn: guesses.isOn,
      })),
      this.#forecast,
    );
    return decodes.map(({ guess, guesses }, place) => guesses.decide(guess, lengths[place] ?? 0));
  }
}

function isDecode(row: BatchRow): boolean {
  return row.tokens.length === 1 && row.choice !== undefined && row.scoring === undefined;
}

/** As many of these as the step has room for, in what is left of a block if there is no other. */
function extendRow(
  { row, sequence }: Decode,
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
