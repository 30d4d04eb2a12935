import type { Prospects } from "../src/pool/offer.ts";
import { LazyTimer } from "./lazy-timer.ts";

/** How long an attempt may go without an answer, and whom to ask before it is given up. */
export interface AttemptPatienceOptions {
  /** From now on; `Infinity` where nobody knows how long the answer takes. */
  readonly limitMs: number;
  /** True: then it is over, also where no other replica could take the request. */
  readonly isStrict?: boolean;
  /** `undefined`: nobody can say. */
  readonly prospects: () => Promise<Prospects | undefined>;
  /** Has another replica asked beside this one; false: nobody does. Not where this one is silent. */
  readonly hedge: () => Promise<boolean>;
}

/**
 * After so long an attempt without an answer looks whether its replica is still heard of, and again
 * each time it has waited twice as long: whole answers take their time.
 */
const LOOK_MS = 2_000;

/**
 * Gives an attempt up that gets no answer: when it is late and cannot be hedged, or nothing is heard of
 * its replica any more, and only if another one could take the request. Alone, a slow replica is the best
 * there is.
 */
export class AttemptPatience {
  readonly #abort = new AbortController();
  readonly #timer = new LazyTimer(() => void this.#look());
  readonly #options: AttemptPatienceOptions;
  readonly #beganAtMs = Date.now();
  readonly #lateAtMs: number;
  #isOver = false;

  constructor(options: AttemptPatienceOptions) {
    this.#options = options;
    this.#lateAtMs = this.#beganAtMs + options.limitMs;
    this.#timer.set(Math.min(this.#lateAtMs, this.#beganAtMs + LOOK_MS));
  }

  /** Fires when the attempt is given up. */
  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  /** The answer has come, or the attempt has ended otherwise: from now on it is not given up. */
  end(): void {
    this.#isOver = true;
    this.#timer.clear();
  }

  async #look(): Promise<void> {
    if (this.#options.isStrict === true && Date.now() >= this.#lateAtMs) {
      this.#giveUp();
      return;
    }
    const prospects = await this.#options.prospects();
    if (this.#isOver) return;
    const nowMs = Date.now();
    const isLate = nowMs >= this.#lateAtMs;
    if (prospects?.hasOther === true && (isLate || prospects.isSilent)) {
      const isHedged = !prospects.isSilent && (await this.#options.hedge());
      if (this.#isOver) return;
      if (isHedged) this.#isOver = true;
      else this.#giveUp();
      return;
    }
    const nextAtMs = nowMs + Math.max(LOOK_MS, nowMs - this.#beganAtMs);
    this.#timer.set(isLate ? nextAtMs : Math.min(this.#lateAtMs, nextAtMs));
  }

  #giveUp(): void {
    this.#isOver = true;
    this.#abort.abort(new Error("The attempt was given up"));
  }
}
