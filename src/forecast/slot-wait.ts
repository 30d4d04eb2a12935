import { assert } from "../base/assert.ts";
import type { ReplicaLoad } from "../replicas/replica-load.ts";
import type { ResidentLife } from "./resident-life.ts";

/** Of a replica whose slots are all taken. */
export interface SlotQueue {
  /** What we know of those that are there; others may be there too. */
  readonly lives: readonly ResidentLife[];
  readonly load: Pick<ReplicaLoad, "sequences" | "sequencesMax">;
  readonly tpotMs: number;
  /** Outputs of whom we know nothing: the mean of what is left of one. */
  readonly strangerTokens: number;
}

/** Beyond this share of the slots those that came later end too, and the wait grows by the mean rate. */
const GENERATION_RATIO = 0.5;
/** Doublings and halvings of the time searched; 20 tell a millisecond of a quarter of an hour. */
const SEARCH_STEPS = 24;

/**
 * How long until a request that comes now has a slot: the time by which as many of those that run are
 * expected to have ended as wait, this request included. 0 while a slot is free.
 *
 * Each resident ends by then with a chance that its age and its tenant's lengths say. The shortest of
 * 256 lives ends long before a mean one, so that the sum of the chances tells, not the order of the means.
 */
export function slotWaitMs({ lives, load, tpotMs, strangerTokens }: SlotQueue): number {
  const { sequences, sequencesMax } = load;
  if (sequences < sequencesMax) return 0;
  assert(sequencesMax >= 1, "a replica has a slot");
  const running = runningOf(lives, sequences, sequencesMax, strangerTokens);
  const due = sequences - sequencesMax + 1;
  const dueSoon = Math.min(due, GENERATION_RATIO * sequencesMax);
  const tokens = tokensUntilEnded(running, dueSoon);
  const tokensPerEnd = meanLifeTokens(running) / sequencesMax;
  return tpotMs * (tokens + (due - dueSoon) * tokensPerEnd);
}

interface Running {
  readonly started: readonly ResidentLife[];
  readonly survivingNow: Float64Array;
  /** Without a token: some run, some wait; `fresh` share of each runs. */
  readonly fresh: readonly ResidentLife[];
  readonly freshRatio: number;
  readonly strangers: number;
  readonly strangerTokens: number;
}

/** Who holds the slots. Those with tokens do; those without, and strangers, have what is left. */
function runningOf(
  lives: readonly ResidentLife[],
  sequences: number,
  sequencesMax: number,
  strangerTokens: number,
): Running {
  const started = lives.filter(({ soFarTokens }) => soFarTokens > 0);
  const fresh = lives.filter(({ soFarTokens }) => soFarTokens === 0);
  const strangers = Math.max(0, sequences - lives.length);
  const others = fresh.length + strangers;
  const leftSlots = Math.max(0, sequencesMax - started.length);
  const ratio = others === 0 ? 0 : Math.min(1, leftSlots / others);
  return {
    started,
    survivingNow: Float64Array.from(started, (life) => life.curve.survival(life.soFarTokens)),
    fresh,
    freshRatio: ratio,
    strangers: strangers * ratio,
    strangerTokens: Math.max(1, strangerTokens),
  };
}

/** How many of them are expected to have ended after so many more tokens. */
function expectedEnds(running: Running, tokens: number): number {
  let ends = running.strangers * (1 - Math.exp(-tokens / running.strangerTokens));
  for (const life of running.fresh) {
    const isOver = tokens >= life.outputTokensMax;
    ends += running.freshRatio * (isOver ? 1 : 1 - life.curve.survival(tokens));
  }
  for (const [index, life] of running.started.entries()) {
    const atTokens = life.soFarTokens + tokens;
    const now = running.survivingNow[index] ?? 0;
    const isOver = atTokens >= life.outputTokensMax || now <= 0;
    ends += isOver ? 1 : 1 - life.curve.survival(atTokens) / now;
  }
  return ends;
}

/** The time, in tokens, by which so many are expected to have ended. */
function tokensUntilEnded(running: Running, ends: number): number {
  let high = 1;
  let steps = 0;
  while (steps < SEARCH_STEPS && expectedEnds(running, high) < ends) {
    high *= 2;
    steps += 1;
  }
  let low = steps === 0 ? 0 : high / 2;
  // Within a twentieth: the forecast around it is no better.
  while (high - low > 0.05 * high && high > 0.5) {
    const middle = (low + high) / 2;
    if (expectedEnds(running, middle) < ends) low = middle;
    else high = middle;
  }
  return high;
}

/** What a slot is held for, from the first token to the last, in the mean. */
function meanLifeTokens({ started, fresh, strangers, strangerTokens }: Running): number {
  let sum = strangers * strangerTokens;
  for (const life of started) sum += life.curve.meanUpTo(life.outputTokensMax);
  for (const life of fresh) sum += life.curve.meanUpTo(life.outputTokensMax);
  const count = strangers + started.length + fresh.length;
  return count === 0 ? strangerTokens : sum / count;
}
