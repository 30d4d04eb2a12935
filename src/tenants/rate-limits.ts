import type { RateStanding, RateWindowState } from "./rate-window.ts";
import { RateWindow } from "./rate-window.ts";

/** How much a tenant may have begun within a minute; what is absent is not limited. */
export interface RatesMax {
  readonly requestsPerMinuteMax?: number;
  readonly tokensPerMinuteMax?: number;
}

/** What {@link RateLimits} remember. */
export interface RateLimitsState {
  readonly requests: RateWindowState;
  readonly tokens: RateWindowState;
}

/** How a tenant's limits stand; what is not limited is absent. */
export interface RateStandings {
  readonly requests?: RateStanding;
  readonly tokens?: RateStanding;
}

/** What stands against a request, and for how long: `Infinity` when it is larger than the limit. */
export interface RateObstacle {
  readonly limit: keyof RateStandings;
  readonly retryAfterMs: number;
}

/** What a request has reserved, by which it can be settled. */
export interface Reservation {
  readonly requestSlot?: number;
  readonly tokens?: { readonly slot: number; readonly reserved: number };
  isSettled: boolean;
}

/** How a request ended: with so many tokens, or without ever having begun. */
export type Settlement =
  | { readonly kind: "used"; readonly tokens: number }
  | { readonly kind: "refunded" };

/**
 * Requests and tokens that a tenant may begin within a minute, counted by a single writer.
 *
 * The most that a request can take is reserved before it begins, and corrected when it is known what
 * it took. So within any minute no more tokens are begun than the limit allows, beyond it at most
 * by what the reservations fell short of. What nobody settles counts as reserved, and like all else
 * for no more than its minute.
 */
export class RateLimits {
  readonly state: RateLimitsState;
  readonly #requests: RateWindow;
  readonly #tokens: RateWindow;

  constructor(state: RateLimitsState = { requests: { slots: [] }, tokens: { slots: [] } }) {
    this.state = state;
    this.#requests = new RateWindow(state.requests);
    this.#tokens = new RateWindow(state.tokens);
  }

  /** What keeps a request of so many tokens from beginning now; the obstacle that lasts longest. */
  obstacleTo(tokens: number, ratesMax: RatesMax, nowMs: number): RateObstacle | undefined {
    const { requestsPerMinuteMax = Infinity, tokensPerMinuteMax = Infinity } = ratesMax;
    const requestsMs = this.#requests.fitsAfterMs(1, requestsPerMinuteMax, nowMs);
    const tokensMs = this.#tokens.fitsAfterMs(tokens, tokensPerMinuteMax, nowMs);
    const retryAfterMs = Math.max(requestsMs, tokensMs);
    if (retryAfterMs === 0) return undefined;
    return { limit: tokensMs > requestsMs ? "tokens" : "requests", retryAfterMs };
  }

  /** Reserves a request and its tokens. Whether that fits is for `obstacleTo` to say before. */
  reserve(tokens: number, ratesMax: RatesMax, nowMs: number): Reservation {
    const { requestsPerMinuteMax, tokensPerMinuteMax } = ratesMax;
    return {
      ...(requestsPerMinuteMax !== undefined && { requestSlot: this.#requests.charge(1, nowMs) }),
      ...(tokensPerMinuteMax !== undefined && {
        tokens: { slot: this.#tokens.charge(tokens, nowMs), reserved: tokens },
      }),
      isSettled: false,
    };
  }

  /** Corrects a reservation, once. Tokens beyond it count from now on, since only now they are known. */
  settle(reservation: Reservation, settlement: Settlement, nowMs: number): void {
    if (reservation.isSettled) return;
    reservation.isSettled = true;
    const { requestSlot, tokens } = reservation;
    const isRefunded = settlement.kind === "refunded";
    if (isRefunded && requestSlot !== undefined) this.#requests.refund(requestSlot, 1, nowMs);
    if (tokens === undefined) return;
    const excess = (isRefunded ? 0 : settlement.tokens) - tokens.reserved;
    if (excess > 0) this.#tokens.charge(excess, nowMs);
    else this.#tokens.refund(tokens.slot, -excess, nowMs);
  }

  /** What of the minute is used, as far as it is limited. */
  used(nowMs: number): { readonly requests: number; readonly tokens: number } {
    return { requests: this.#requests.used(nowMs), tokens: this.#tokens.used(nowMs) };
  }

  /** Says how the limits stand. */
  standings({ requestsPerMinuteMax, tokensPerMinuteMax }: RatesMax, nowMs: number): RateStandings {
    return {
      ...(requestsPerMinuteMax !== undefined && {
        requests: this.#requests.standing(requestsPerMinuteMax, nowMs),
      }),
      ...(tokensPerMinuteMax !== undefined && {
        tokens: this.#tokens.standing(tokensPerMinuteMax, nowMs),
      }),
    };
  }

  checkInvariants(): void {
    this.#requests.checkInvariants();
    this.#tokens.checkInvariants();
  }
}
