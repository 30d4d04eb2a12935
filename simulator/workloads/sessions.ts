import type { Random } from "../../src/base/random.ts";
import { drawSeed, seededRandom } from "../../src/base/random.ts";
import type { RequestSize } from "./arrival.ts";
import { exponential } from "./intervals.ts";
import type { SampledRequest } from "./request-sampler.ts";
import { sampleRequest } from "./request-sampler.ts";
import type { SessionShape, TenantProfile } from "./tenant-profile.ts";
import { TimeMerge } from "./time-merge.ts";

/** One turn of a conversation: `atMs` counts from the session's start. */
export interface SessionTurn extends SampledRequest {
  readonly atMs: number;
}

/** A turn in its place: `atMs` counts from the start of the workload, `session` from 0. */
export interface PlacedTurn extends SessionTurn {
  readonly session: number;
}

/** Yields the turns of one session; every prompt begins with the prompt and answer before it. */
export function* sessionTurns(
  profile: TenantProfile,
  shape: SessionShape,
  random: Random,
): Generator<SessionTurn> {
  const first = sampleRequest(profile, random);
  let turn: SessionTurn = { ...first, atMs: 0 };
  for (let turns = 1; ; turns += 1) {
    yield turn;
    if (turns >= shape.turnsMax || random() * shape.turnsMean < 1) return;
    const newTokens = 1 + Math.round(exponential(random) * shape.turnTokensMean);
    const promptTokens = turn.promptTokens + turn.outputTokens + newTokens;
    if (promptTokens > shape.promptTokensMax) return;
    const thinkMs = exponential(random) * shape.thinkMeanMs;
    const { outputTokens } = sampleRequest(profile, random);
    const atMs = turn.atMs + turn.outputTokens * shape.answerTokenMs + thinkMs;
    turn = { ...first, promptTokens, outputTokens, atMs };
  }
}

/** Sessions of one tenant that are open at once; beyond, a new one has only its first turn. */
const OPEN_SESSIONS_MAX = 100_000;

/**
 * Yields the turns of all sessions up to `untilMs` in order of time, given when sessions begin.
 *
 * Every session has a sequence of its own, so that its turns do not depend on which others are open.
 * A workload begins without sessions and reaches its rate only after about one session's length.
 */
export function* placedTurns(
  starts: Iterable<number>,
  open: (random: Random) => Iterator<SessionTurn>,
  random: Random,
  { untilMs, openMax = OPEN_SESSIONS_MAX }: { untilMs: number; openMax?: number },
): Generator<PlacedTurn> {
  const merge = new TimeMerge<PlacedTurn>();
  let session = 0;
  for (const startAtMs of starts) {
    yield* takenUntil(merge, startAtMs);
    const turns = placed(open(seededRandom(drawSeed(random))), startAtMs, session);
    session += 1;
    if (merge.size < openMax) {
      merge.add(turns);
    } else {
      const first = turns.next();
      if (first.done !== true) yield first.value;
    }
  }
  yield* takenUntil(merge, untilMs);
}

function* placed(
  turns: Iterator<SessionTurn>,
  startAtMs: number,
  session: number,
): Generator<PlacedTurn, undefined> {
  for (let next = turns.next(); next.done !== true; next = turns.next()) {
    yield { ...next.value, atMs: startAtMs + next.value.atMs, session };
  }
}

function* takenUntil(merge: TimeMerge<PlacedTurn>, untilMs: number): Generator<PlacedTurn> {
  for (let turn = merge.take(untilMs); turn !== undefined; turn = merge.take(untilMs)) yield turn;
}

const PRICED_SESSIONS = 4000;
const PRICED_SESSIONS_SEED = 1733;

/** The mean price of a whole session, over 4000 drawn with a fixed seed: within about 2 %. */
export function expectedSessionPrice(
  profile: TenantProfile,
  shape: SessionShape,
  price: (size: RequestSize) => number,
): number {
  const random = seededRandom(PRICED_SESSIONS_SEED);
  let sum = 0;
  for (let session = 0; session < PRICED_SESSIONS; session += 1) {
    for (const turn of sessionTurns(profile, shape, random)) sum += price(turn);
  }
  return sum / PRICED_SESSIONS;
}
