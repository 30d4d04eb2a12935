import type { RequestId } from "../protocol/ids.ts";
import type { PermitHold } from "./permits.ts";
import { TenantPermits } from "./permits.ts";
import type {
  RateLimitsState,
  RatesMax,
  RateStandings,
  Reservation,
  Settlement,
} from "./rate-limits.ts";
import { RateLimits } from "./rate-limits.ts";

/** What a tenant may use; what is absent is not limited. */
export interface LimitsMax extends RatesMax {
  /** Requests that may run at once. */
  readonly concurrencyMax?: number;
}

/** A request that asks to begin. */
export interface LimitedRequest {
  readonly requestId: RequestId;
  /** The most that it can take, prompt and output together. */
  readonly tokensMax: number;
  readonly limitsMax: LimitsMax;
}

/** One caller's claim on what a request was granted. */
export interface LimitsHold {
  readonly permit: PermitHold;
  /** Absent for the second caller of one request, which counts once. */
  readonly reservation: Reservation | undefined;
}

/** Whether a request may begin, and how the limits stand after that. */
export type LimitsVerdict = { readonly standings: RateStandings } & (
  | { readonly kind: "granted"; readonly hold: LimitsHold }
  | {
      readonly kind: "rejected";
      readonly limit: "concurrency" | "requests" | "tokens";
      /** `Infinity` for a request that is larger than the whole limit. */
      readonly retryAfterMs: number;
    }
);

/**
 * All that a tenant may use, decided in one place: a request is granted its permit and its
 * reservation together, or takes neither.
 */
export class TenantLimits {
  readonly #permits = new TenantPermits();
  readonly #rates: RateLimits;

  constructor(rates: RateLimits = new RateLimits()) {
    this.#rates = rates;
  }

  /** What has to outlive a restart; permits end with those who hold them. */
  get ratesState(): RateLimitsState {
    return this.#rates.state;
  }

  acquire(request: LimitedRequest, nowMs: number): LimitsVerdict {
    const verdict = this.#decide(request, nowMs);
    return { ...verdict, standings: this.#rates.standings(request.limitsMax, nowMs) };
  }

  /** Lets go of a permit, and says what the request took, if that is known. */
  release(hold: LimitsHold, settlement: Settlement | undefined, nowMs: number): void {
    this.#permits.release(hold.permit, nowMs);
    if (hold.reservation === undefined || settlement === undefined) return;
    this.#rates.settle(hold.reservation, settlement, nowMs);
  }

  checkInvariants(): void {
    this.#permits.checkInvariants();
    this.#rates.checkInvariants();
  }

  #decide({ requestId, tokensMax, limitsMax }: LimitedRequest, nowMs: number) {
    const { concurrencyMax = Infinity } = limitsMax;
    const isKnown = this.#permits.isHeld(requestId, nowMs);
    const obstacle = isKnown ? undefined : this.#rates.obstacleTo(tokensMax, limitsMax, nowMs);
    if (obstacle !== undefined) return { kind: "rejected", ...obstacle } as const;
    const verdict = this.#permits.acquire({ requestId, concurrencyMax }, nowMs);
    if (verdict.kind === "rejected") return { ...verdict, limit: "concurrency" } as const;
    const reservation = isKnown ? undefined : this.#rates.reserve(tokensMax, limitsMax, nowMs);
    return { kind: "granted", hold: { permit: verdict.hold, reservation } } as const;
  }
}
