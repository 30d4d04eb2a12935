import type { RequestId } from "../protocol/ids.ts";
import type { PermitHold } from "./permits.ts";
import { costMaxOf } from "./model-price.ts";
import type { Levels } from "./levels.ts";
import { microsCeilOf, picosOfMicros } from "./money.ts";
import { TenantPermits } from "./permits.ts";
import type { RateLimitsState, RatesMax, RateStandings, Reservation } from "./rate-limits.ts";
import { RateLimits } from "./rate-limits.ts";
import type { UsageEnding } from "./usage-ending.ts";
import { settlementOf } from "./usage-ending.ts";
import { ROW_SILENCE_MS_MAX, UsageLedger } from "./usage-ledger.ts";
import type { UsageRow } from "./usage-rows.ts";

/** What a tenant may use; what is absent is not limited. */
export interface LimitsMax extends RatesMax {
  /** Requests that may run at once. */
  readonly concurrencyMax?: number;
  /** Tokens of a month in UTC. */
  readonly tokensPerMonthMax?: number;
  /** Millionths of the currency, likewise. */
  readonly spendPerMonthMaxMicros?: number;
}

/** A request that asks to begin. */
export interface LimitedRequest {
  readonly row: UsageRow;
  readonly limitsMax: LimitsMax;
}

/** One caller's claim on what a request was granted. */
export interface LimitsHold {
  readonly permit: PermitHold;
  readonly row: UsageRow;
  /** Absent for the second caller of one request, which counts once. */
  readonly reservation: Reservation | undefined;
}

/** Whether a request may begin, and how the limits stand after that. */
export type LimitsVerdict = { readonly standings: RateStandings } & (
  | { readonly kind: "granted"; readonly hold: LimitsHold }
  | {
      readonly kind: "rejected";
      readonly limit: "concurrency" | "requests" | "tokens" | "month" | "spend";
      /** `Infinity` for a request that is larger than the whole limit, and for a month's. */
      readonly retryAfterMs: number;
    }
);

/** A holder that lives is heard of within so much less than the silence after which a row is settled. */
const SPARED_MS = ROW_SILENCE_MS_MAX - 12_000;

/** When to ask again while the ledger is full, which is never a tenant's own doing. */
const LEDGER_FULL_RETRY_MS = 1_000;

/**
 * All that a tenant may use and has used, decided in one place: a request is granted its permit, its
 * reservation and its row in the ledger together, or takes none of them.
 */
export class TenantLimits {
  readonly #permits = new TenantPermits();
  readonly #rates: RateLimits;
  readonly ledger: UsageLedger;
  /** Requests that began in a former life of the object, and when they were to be settled as its row was read. */
  readonly #former: Map<RequestId, number>;

  constructor(rates: RateLimits = new RateLimits(), ledger: UsageLedger = new UsageLedger()) {
    this.#rates = rates;
    this.ledger = ledger;
    const { open } = ledger.state;
    this.#former = new Map([...open].map(([id, { settleByAtMs }]) => [id, settleByAtMs]));
  }

  /** What has to outlive a restart, beside the ledger, whose open rows are the permits of before. */
  get ratesState(): RateLimitsState {
    return this.#rates.state;
  }

  /** What is taken of each limit. */
  taken(nowMs: number): Levels {
    const { tokens, reservedTokens, spentPicos, reservedPicos } = this.ledger.monthStanding(nowMs);
    return {
      concurrency: this.#permits.countHeld(nowMs) + this.#countFormer(nowMs),
      ...this.#rates.used(nowMs),
      monthTokens: tokens + reservedTokens,
      monthMicros: microsCeilOf(spentPicos + reservedPicos),
    };
  }

  acquire(request: LimitedRequest, nowMs: number): LimitsVerdict {
    const verdict = this.#decide(request, nowMs);
    return { ...verdict, standings: this.#rates.standings(request.limitsMax, nowMs) };
  }

  /**
   * Lets go of a permit, and says how the request ended, if that is known. Only the first ending counts; true
   * where this was it.
   */
  release(hold: LimitsHold, ending: UsageEnding | undefined, nowMs: number): boolean {
    const { permit, row, reservation } = hold;
    this.#permits.release(permit, nowMs);
    let isFirst = false;
    if (ending !== undefined) {
      isFirst = this.ledger.settle(row, ending, nowMs);
    } else if (!this.#permits.isHeld(row.requestId, nowMs)) {
      this.ledger.letGo(row.requestId, nowMs);
    }
    const settlement = ending && settlementOf(ending);
    if (reservation !== undefined && settlement !== undefined) {
      this.#rates.settle(reservation, settlement, nowMs);
    }
    return isFirst;
  }

  checkInvariants(): void {
    this.#permits.checkInvariants();
    this.#rates.checkInvariants();
    this.ledger.checkInvariants();
  }

  #decide({ row, limitsMax }: LimitedRequest, nowMs: number) {
    const { requestId, tokensMax } = row;
    const { concurrencyMax: runningMax = Infinity } = limitsMax;
    const concurrencyMax = Math.max(0, runningMax - this.#countFormer(nowMs));
    const isKnown = this.#permits.isHeld(requestId, nowMs);
    const obstacle = isKnown ? undefined : this.#obstacleTo(row, limitsMax, nowMs);
    if (obstacle !== undefined) return { kind: "rejected", ...obstacle } as const;
    const verdict = this.#permits.acquire({ requestId, concurrencyMax }, nowMs);
    if (verdict.kind === "rejected") return { ...verdict, limit: "concurrency" } as const;
    if (this.ledger.open(row, nowMs) === "full") {
      this.#permits.release(verdict.hold, nowMs);
      return {
        kind: "rejected",
        limit: "concurrency",
        retryAfterMs: LEDGER_FULL_RETRY_MS,
      } as const;
    }
    const reservation = isKnown ? undefined : this.#rates.reserve(tokensMax, limitsMax, nowMs);
    return { kind: "granted", hold: { permit: verdict.hold, row, reservation } } as const;
  }

  /**
   * They run until their holder settles them. Of one that has not been heard of since, as every holder is each
   * ten seconds, the holder has died with the object.
   */
  #countFormer(nowMs: number): number {
    for (const [requestId, settleByAtMs] of this.#former) {
      const row = this.ledger.state.open.get(requestId);
      const isSilent = row?.settleByAtMs === settleByAtMs && nowMs >= settleByAtMs - SPARED_MS;
      if (row === undefined || isSilent || this.#permits.isHeld(requestId, nowMs)) {
        this.#former.delete(requestId);
      }
    }
    return this.#former.size;
  }

  /** A used-up month comes first: no minute that passes helps against it. */
  #obstacleTo({ tokensMax, promptTokens, pricing }: UsageRow, limitsMax: LimitsMax, nowMs: number) {
    const { tokensPerMonthMax = Infinity, spendPerMonthMaxMicros } = limitsMax;
    const month = this.ledger.monthStanding(nowMs);
    if (month.tokens + month.reservedTokens + tokensMax > tokensPerMonthMax) {
      return { limit: "month", retryAfterMs: Infinity } as const;
    }
    const mayBeSpent = month.spentPicos + month.reservedPicos + costMaxOf(promptTokens, pricing);
    if (
      spendPerMonthMaxMicros !== undefined &&
      mayBeSpent > picosOfMicros(spendPerMonthMaxMicros)
    ) {
      return { limit: "spend", retryAfterMs: Infinity } as const;
    }
    return this.#rates.obstacleTo(tokensMax, limitsMax, nowMs);
  }
}
