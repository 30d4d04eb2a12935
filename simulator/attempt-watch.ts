import { attemptLimitMs } from "../src/slo/attempt-limit.ts";
import type { Attempt } from "./simulated-call.ts";
import type { World } from "./world.ts";

/** When a gateway gives a replica up that says nothing. */
export interface GatewayTimeouts {
  readonly firstTokenMs: number;
  readonly gapMs: number;
}

export interface AttemptWatchOptions {
  readonly world: World;
  readonly timeouts: GatewayTimeouts;
  /** Whether a late request is hedged or tried elsewhere; otherwise it waits for its time-out, twice at most. */
  readonly actsOnLateness: boolean;
  /** No token has come for too long. */
  readonly onTimeout: (attempt: Attempt) => void;
  /** The first token is late: another replica might do better. */
  readonly onLate: (attempt: Attempt) => void;
}

/** Replicas that one request may be given to, all of them before its first token. */
const ATTEMPTS_MAX = 3;
/** What is late and has to stay where it is is looked at again after so long. */
const LOOK_MS = 2_000;

/** Tells a gateway in virtual time when a replica takes too long. */
export class AttemptWatch {
  readonly attemptsMax: number;
  readonly #options: AttemptWatchOptions;

  constructor(options: AttemptWatchOptions) {
    this.#options = options;
    this.attemptsMax = options.actsOnLateness ? ATTEMPTS_MAX : ATTEMPTS_MAX - 1;
  }

  /** Watches over an attempt until it ends. */
  watch(attempt: Attempt): void {
    this.#watchTokens(attempt, 0);
    const { forecast, firstTokenBudgetMs } = attempt.dispatch;
    const outlook = { boundMs: forecast.ttftMs, budgetMs: firstTokenBudgetMs };
    this.#watchStart(attempt, attemptLimitMs(outlook));
  }

  /** Of two copies only the second one can be late, and the last that may be asked has all the time. */
  mayBeLate(attempt: Attempt): boolean {
    const { call, tokens } = attempt;
    const asked = call.failedReplicaIds.length + call.attempts.size;
    if (!call.attempts.has(attempt) || tokens > 0 || asked >= this.attemptsMax) return false;
    return call.attempts.size === 1 || attempt.isHedge;
  }

  #watchTokens(attempt: Attempt, tokensBefore: number): void {
    const { world, timeouts, onTimeout } = this.#options;
    const waitMs = attempt.tokens === 0 ? timeouts.firstTokenMs : timeouts.gapMs;
    world.after(waitMs, () => {
      if (!attempt.call.attempts.has(attempt)) return;
      if (attempt.tokens > tokensBefore) this.#watchTokens(attempt, attempt.tokens);
      else onTimeout(attempt);
    });
  }

  #watchStart(attempt: Attempt, waitMs: number): void {
    const { world, actsOnLateness, onLate } = this.#options;
    if (!actsOnLateness || !attempt.call.options.tenant.isStreamed) return;
    world.after(waitMs, () => {
      if (!attempt.call.attempts.has(attempt) || attempt.tokens > 0) return;
      if (this.mayBeLate(attempt)) onLate(attempt);
      this.#watchStart(attempt, LOOK_MS);
    });
  }
}
