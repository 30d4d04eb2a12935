import { assert } from "../base/assert.ts";

/** What an {@link UpstreamQuota} remembers. */
export interface UpstreamQuotaState {
  /** Requests that it seems to take at once; absent: as many as it may be sent. */
  ceiling?: number;
  /** Nothing is sent before. */
  heldUntilMs?: number;
  /** What was sent up to here saw the load that was cut. */
  cutNumber: number;
  /** Mean time to the first token of late, for each unit of work. */
  recentMs?: number;
  /** The least that this has been, forgotten slowly. */
  leastMs?: number;
}

/** A request that a server has answered or refused. */
export interface AnsweredRequest {
  readonly dispatchNumber: number;
  /** Requests of ours there, this one included. */
  readonly outstanding: number;
  /** That it may have at the most, whatever it says. */
  readonly outstandingMax: number;
}

/** As in Netflix' concurrency-limits. */
const CUT_RATIO = 0.9;
/** Slower than at its best by so much, requests wait inside it: one more at once would only wait as well. */
const TOLERANCE_RATIO = 2;
/** The deepest cut by one look at how slow it is. */
const GRADIENT_MIN = 0.5;
const RECENT_WEIGHT = 0.1;
/** By so much a sample the least time is forgotten where there is room: 700 of them to double, since servers change. */
const FORGET_RATIO = 0.001;
/** And where there is no crowd that could be why it is slow. */
const ALONE_FORGET_RATIO = 0.05;
const ALONE = 2;
/** A first token costs as much as computing so many tokens, apart from its prompt. */
const FIXED_TOKENS = 500;

/** Requests that a server may have at once; `Infinity` unless that was found to be too many. */
export function ceilingOf({ ceiling = Infinity }: UpstreamQuotaState): number {
  return Math.max(1, Math.floor(ceiling));
}

/**
 * How many requests at once a server takes that does not tell its load: cut when it refuses for want of room, or when
 * first tokens take much longer for their prompts than at its best; raised by one for as many good answers as there
 * may be at once. Beside it how long it asked to be left alone.
 */
export class UpstreamQuota {
  readonly state: UpstreamQuotaState;

  constructor(state: UpstreamQuotaState) {
    this.state = state;
  }

  get ceiling(): number {
    return ceilingOf(this.state);
  }

  isHeldAt(nowMs: number): boolean {
    return nowMs < (this.state.heldUntilMs ?? -Infinity);
  }

  /** It is to be left alone until then; a later word never shortens an earlier one. */
  holdUntil(untilMs: number): void {
    this.state.heldUntilMs = Math.max(untilMs, this.state.heldUntilMs ?? -Infinity);
  }

  /** It has no room for as many as it had. All who were refused of one crowd count once. */
  refused({ dispatchNumber, outstanding }: AnsweredRequest, lastNumber: number): void {
    this.#cut(dispatchNumber, CUT_RATIO * outstanding, lastNumber);
  }

  /** A first token has come, for a prompt of so many tokens that were not cached. */
  answered(
    request: AnsweredRequest,
    { firstTokenMs, tokens }: { readonly firstTokenMs: number; readonly tokens: number },
    lastNumber: number,
  ): void {
    const { state } = this;
    const unitMs = firstTokenMs / (FIXED_TOKENS + tokens);
    const recentMs =
      (state.recentMs ?? unitMs) + RECENT_WEIGHT * (unitMs - (state.recentMs ?? unitMs));
    const knownMs = (1 + this.#forgetRatio(request)) * (state.leastMs ?? recentMs);
    const leastMs = Math.min(recentMs, knownMs);
    Object.assign(state, { recentMs, leastMs });
    const gradient = recentMs > 0 ? (TOLERANCE_RATIO * leastMs) / recentMs : 1;
    if (gradient < 1 && request.outstanding > ALONE) {
      const ratio = Math.max(GRADIENT_MIN, gradient);
      this.#cut(request.dispatchNumber, ratio * request.outstanding, lastNumber);
    } else {
      this.#raise(request);
    }
  }

  checkInvariants(): void {
    const { ceiling = 1, leastMs = 0, recentMs = leastMs } = this.state;
    assert(ceiling >= 1, "a ceiling lets one through");
    assert(leastMs <= recentMs, "the least is not more than the last");
  }

  /** What is measured at the ceiling may be slow for the crowd, and must not become the measure of it. */
  #forgetRatio({ outstanding }: AnsweredRequest): number {
    if (outstanding <= ALONE) return ALONE_FORGET_RATIO;
    return 2 * outstanding < (this.state.ceiling ?? Infinity) ? FORGET_RATIO : 0;
  }

  #cut(dispatchNumber: number, ceiling: number, lastNumber: number): void {
    const { state } = this;
    if (dispatchNumber <= state.cutNumber) return;
    state.ceiling = Math.max(1, Math.min(ceiling, state.ceiling ?? Infinity));
    state.cutNumber = lastNumber;
  }

  /** Only where it is made use of: what nobody tries tells nothing. */
  #raise({ outstanding, outstandingMax }: AnsweredRequest): void {
    const { ceiling } = this.state;
    if (ceiling === undefined || 2 * outstanding < ceiling) return;
    const raised = ceiling + 1 / ceiling;
    if (raised >= outstandingMax) delete this.state.ceiling;
    else this.state.ceiling = raised;
  }
}
