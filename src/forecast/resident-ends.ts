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
 * How many of those that hold a replica's slots are expected to have ended after so many more tokens.
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
  }

  /** How many are expected to have ended. */
  endsBy(tokens: number): number {
    // A stranger has no age that we know of: it is as likely to end at any moment.
    let others = this.#strangers * (1 - Math.exp(-tokens / this.#strangerTokens));
    for (const life of this.#fresh) others += endRatio(life, 1, tokens);
    let ends = others * this.#runningRatio;
    for (const [index, life] of this.#started.entries()) {
      ends += endRatio(life, this.#reached[index] ?? 0, tokens);
    }
    return ends;
  }

  /** What a slot is held for, from the first token to the last, in the mean over those there. */
  get meanLifeTokens(): number {
    let sum = this.#strangers * this.#strangerTokens;
    for (const life of this.#started) sum += life.curve.meanUpTo(life.outputTokensMax);
    for (const life of this.#fresh) sum += life.curve.meanUpTo(life.outputTokensMax);
    const count = this.#strangers + this.#started.length + this.#fresh.length;
    return count === 0 ? this.#strangerTokens : sum / count;
  }
}

function endRatio(life: ResidentLife, reached: number, tokens: number): number {
  const atTokens = life.soFarTokens + tokens;
  if (atTokens >= life.outputTokensMax || reached <= 0) return 1;
  return 1 - life.curve.survival(atTokens) / reached;
}
