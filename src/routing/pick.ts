import { assert } from "../base/assert.ts";
import type { Random } from "../base/random.ts";
import { capacityOf, isBelowCeiling, poolLoad } from "./bounded-load.ts";
import type { Candidate } from "./candidate.ts";

/** Headrooms closer than this say the same: no forecast is better than a few percent. */
const NEAR_HEADROOM_RATIO = 0.05;
/**
 * Beyond this no target is at risk, so more headroom is worth nothing. What counts then is to do
 * least work, which is where a prefix is cached, even if a token would come earlier elsewhere.
 */
const AMPLE_HEADROOM_RATIO = 0.3;
/** Prompts of which no more than so much differs are as much work. */
const NEAR_WORK = { ratio: 0.1, tokens: 8 } as const;
/** First tokens that differ by a smaller share than this come at the same time. */
const NEAR_TTFT_RATIO = 0.02;

/**
 * What it counts against a replica that a request would bind it to a tighter TPOT than all that are there:
 * like with like leaves the others room for larger batches (PolyServe, arXiv 2507.17769, bins by TPOT).
 */
const TIGHTENING_WEIGHT = 0.25;

/** How to pick. */
export interface PickOptions {
  readonly random: Random;
  /** Share of the picks that go to any open replica where it is no more work, so that what is believed of it stays tested. */
  readonly explorationRatio: number;
  /** A report older than this no longer tells the best replica from the others. */
  readonly staleAfterMs: number;
}

/** The settings that a pool uses unless it is told otherwise. */
export const PICK_DEFAULTS = { explorationRatio: 0.01, staleAfterMs: 1_000 } as const;

/**
 * Picks the replica that a request goes to; `undefined` when none is feasible.
 *
 * Only feasible replicas below their load ceiling are open, or all feasible ones when none is below
 * it. Of those the one with most headroom wins, as long as headroom is scarce: whoever is nearest to
 * a broken target gets nothing more. `candidates` are all replicas that are fit, also the infeasible
 * ones, since the ceilings are shares of the whole pool's load.
 */
export function pickReplica<Choice extends Candidate>(
  candidates: readonly Choice[],
  { random, explorationRatio, staleAfterMs }: PickOptions,
): Choice | undefined {
  // Once its time is over one that was left alone is tried: were it only where it looks best, it never
  // might be, and those that are left could not be left alone in their turn.
  const probes = candidates.filter(({ isFeasible, isProbe }) => isFeasible && isProbe);
  if (probes.length > 0) return bestOf(probes, random);
  const open = openOf(candidates);
  if (open.length <= 1) return open[0];
  // Not where it would be more work: a session that is tried out elsewhere has moved there.
  if (random() < explorationRatio) return drawn(ofLeastWork(open), random);
  const best = bestOf(open, random);
  // Everybody's best by the same old news would get everybody's requests until the next report.
  // One of two drawn by chance is nearly as good and never a crowd (Mitzenmacher, 2000).
  return best.reportAgeMs > staleAfterMs ? bestOf(twoOf(open, random), random) : best;
}

function openOf<Choice extends Candidate>(candidates: readonly Choice[]): readonly Choice[] {
  const pool = poolLoad(candidates);
  const feasible = candidates.filter(({ isFeasible }) => isFeasible);
  const open = feasible.filter((candidate) => isBelowCeiling(candidate, pool));
  return open.length > 0 ? open : feasible;
}

/**
 * The best by headroom, then by work, then by its turn where replicas have weights, then by first token, then by
 * load for its capacity, then by what the route prefers; equals are drawn by chance. Each rule keeps a band, within which the next one decides:
 * otherwise noise in the first would decide everything, and always for the same replica.
 */
function bestOf<Choice extends Candidate>(open: readonly Choice[], random: Random): Choice {
  let equals = lowest(open, missingHeadroom, (least) => least + NEAR_HEADROOM_RATIO);
  equals = ofLeastWork(equals);
  equals = lowest(equals, turnOf, exactly);
  equals = lowest(equals, ttftMsOf, (least) => least * (1 + NEAR_TTFT_RATIO));
  equals = lowest(equals, loadWithOneMore, exactly);
  equals = lowest(equals, distance, exactly);
  return drawn(equals, random);
}

const missingHeadroom = ({ headroomRatio, tighteningRatio }: Candidate) =>
  AMPLE_HEADROOM_RATIO -
  Math.min(headroomRatio - TIGHTENING_WEIGHT * tighteningRatio, AMPLE_HEADROOM_RATIO);
const turnOf = ({ turn }: Candidate) => turn;
const ttftMsOf = ({ ttftMs }: Candidate) => ttftMs;
// With this request, so that of two idle replicas the one that can do more comes first.
const loadWithOneMore = (candidate: Candidate) => (candidate.sequences + 1) / capacityOf(candidate);
const distance = ({ rendezvous }: Candidate) => -rendezvous;
const exactly = (least: number) => least;

function ofLeastWork<Choice extends Candidate>(choices: readonly Choice[]): readonly Choice[] {
  return lowest(
    choices,
    ({ uncachedTokens }) => uncachedTokens,
    (least) => least * (1 + NEAR_WORK.ratio) + NEAR_WORK.tokens,
  );
}

function lowest<Choice extends Candidate>(
  choices: readonly Choice[],
  valueOf: (candidate: Candidate) => number,
  bandEnd: (least: number) => number,
): readonly Choice[] {
  if (choices.length === 1) return choices;
  let least = Infinity;
  for (const choice of choices) least = Math.min(least, valueOf(choice));
  const limit = bandEnd(least);
  return choices.filter((choice) => valueOf(choice) <= limit);
}

function twoOf<Choice>(open: readonly Choice[], random: Random): readonly Choice[] {
  const first = Math.floor(random() * open.length);
  // One of the others, by its distance from the first.
  const second = (first + 1 + Math.floor(random() * (open.length - 1))) % open.length;
  return [at(open, first), at(open, second)];
}

function drawn<Choice>(equals: readonly Choice[], random: Random): Choice {
  return equals.length === 1 ? at(equals, 0) : at(equals, Math.floor(random() * equals.length));
}

function at<Choice>(choices: readonly Choice[], index: number): Choice {
  const choice = choices[index];
  assert(choice !== undefined, "a choice is among the choices");
  return choice;
}
