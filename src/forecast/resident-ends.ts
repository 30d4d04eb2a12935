import type { ReplicaLoad } from "../replicas/replica-load.ts";
import type { ResidentLife } from "./resident-life.ts";

/** Who is on a replica. */
export interface Residents {
  /** Those that we sent. */
  readonly lives: readonly ResidentLife[];
  readonly load: Pick<ReplicaLoad, "sequences" | "sequencesMax">;
  /** Of others there may be any number: what is left of an output of theirs, in the mean. */
  readonly strangerTokens: number;
}

/**
 * How many of a replica's slots are expected to have become free after so many more tokens.
 *
 * Each ends by then with a chance that its age and its tenant's lengths say, and the chances add up.
 * The order of the mean lives would not do: the shortest of 256 ends long before any mean.
 */
export class ResidentEnds {
  readonly #started: readonly ResidentLife[];
  /** Share of outputs that become as old as each of `started` is. */
  readonly #reached: Float64Array;
  readonly #fresh: readonly ResidentLife[];
  /** Of those without a token and of strangers: the share that holds slots; the rest waits. */
  readonly #runningRatio: number;
  readonly #strangers: number;
  readonly #strangerTokens: number;
  /** What those hold a slot for, in the mean, that are still to begin. */
  readonly laterLifeTokens: number;

  constructor({ lives, load, strangerTokens }: Residents) {
    this.#started = lives.filter(({ soFarTokens }) => soFarTokens > 0);
    this.#fresh = lives.filter(({ soFarTokens }) => soFarTokens === 0);
    this.#reached = Float64Array.from(this.#started, (life) =>
      life.curve.survival(life.soFarTokens),
    );
    this.#strangers = Math.max(0, load.sequences - lives.length);
    const others = this.#fresh.length + this.#strangers;
    const slotsLeft = Math.max(0, load.sequencesMax - this.#started.length);
    this.#runningRatio = Math.min(1, slotsLeft / Math.max(1, others));
    this.#strangerTokens = Math.max(1, strangerTokens);
    this.laterLifeTokens = laterLifeOf(this.#started, this.#fresh, {
      count: this.#strangers,
      tokens: this.#strangerTokens,
    });
  }

  /**
   * How many are expected to have ended, those included that take the slots of others and end as well:
   * they are taken to end at an even rate from when they begin.
   */
  endsBy(tokens: number): number {
    const ends = this.#firstEndsBy(tokens);
    // The slots' time that later ones have had, as if they had come evenly: slots change hands once at most.
    const laterSlotTokens = (ends * tokens) / 2;
    return ends + laterSlotTokens / this.laterLifeTokens;
  }

  /** Of those that have slots now. */
  #firstEndsBy(tokens: number): number {
    // A stranger has no age that we know of: it is as likely to end at any moment.
    let others = this.#strangers * (1 - Math.exp(-tokens / this.#strangerTokens));
    for (const life of this.#fresh) others += endRatio(life, 1, tokens);
    let ends = others * this.#runningRatio;
    let index = 0;
    for (const life of this.#started) {
      ends += endRatio(life, this.#reached[index] ?? 0, tokens);
      index += 1;
    }
    return ends;
  }
}

/**
 * What a slot is going to be held for, in the mean over those that will begin: those that wait, or else
 * such as are there. Of these long ones are there more often than they come, which the harmonic mean undoes.
 */
function laterLifeOf(
  started: readonly ResidentLife[],
  fresh: readonly ResidentLife[],
  strangers: { readonly count: number; readonly tokens: number },
): number {
  const waiting = fresh.length + strangers.count;
  if (waiting > 0) {
    let sum = strangers.count * strangers.tokens;
    for (const life of fresh) sum += lifeTokens(life);
    return sum / waiting;
  }
  let rate = 0;
  for (const life of started) rate += 1 / lifeTokens(life);
  return started.length === 0 ? strangers.tokens : started.length / rate;
}

function lifeTokens({ curve, outputTokensMax }: ResidentLife): number {
  return Math.max(1, curve.meanUpTo(outputTokensMax));
}

function endRatio(life: ResidentLife, reached: number, tokens: number): number {
  const atTokens = life.soFarTokens + tokens;
  if (atTokens >= life.outputTokensMax || reached <= 0) return 1;
  return 1 - life.curve.survival(atTokens) / reached;
}
