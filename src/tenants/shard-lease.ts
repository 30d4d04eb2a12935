import type { Levels } from "./levels.ts";
import { levelsBy, limitsMaxOf, NO_LEVELS } from "./levels.ts";
import type { LeaseGrant, LeaseRequest } from "./shard-allotments.ts";
import { LEASE_MS } from "./shard-allotments.ts";
import type { LimitsMax } from "./tenant-limits.ts";

/** One shard's part of its tenant's limits, as far as it knows. */
export class ShardLease {
  readonly #shard: number;
  readonly #life: number;
  #sequence = 0;
  #month = 0;
  #allotted = NO_LEVELS;
  #free = NO_LEVELS;
  #expiresAtMs = -Infinity;

  constructor(shard: number, life: number) {
    this.#shard = shard;
    this.#life = life;
  }

  /** Of the request that was asked last; the answers to others no longer count. */
  get sequence(): number {
    return this.#sequence;
  }

  /** The limits that the shard has to keep now; nothing once its lease is over. */
  limitsMax(limitsMax: LimitsMax, month: number, nowMs: number): LimitsMax {
    const isOfMonth = month === this.#month;
    const allotted = this.isLeased(nowMs) ? this.#allotted : NO_LEVELS;
    return limitsMaxOf(limitsMax, {
      ...allotted,
      monthTokens: isOfMonth ? allotted.monthTokens : 0,
      monthMicros: isOfMonth ? allotted.monthMicros : 0,
    });
  }

  /**
   * Lets go of all but what is taken, and asks for what is lacking. An answer to what was asked before
   * no longer counts.
   */
  ask(
    taken: Levels,
    wish: Pick<LeaseRequest, "wants" | "least" | "isBusy" | "month">,
  ): LeaseRequest {
    this.#sequence += 1;
    this.#allotted = levelsBy((name) => Math.min(taken[name], this.#allotted[name]));
    const [shard, life, sequence] = [this.#shard, this.#life, this.#sequence];
    return { shard, life, sequence, kept: taken, ...wish };
  }

  /** Takes the answer to a request that was sent at an instant of this shard's clock. */
  take({ sequence, month }: LeaseRequest, grant: LeaseGrant, sentAtMs: number): void {
    if (sequence !== this.#sequence) return;
    this.#month = month;
    this.#allotted = grant.allotted;
    this.#free = grant.free;
    this.#expiresAtMs = sentAtMs + LEASE_MS;
  }

  /** Whether the shard may begin anything; one that has never asked may not, though nothing be limited. */
  isLeased(nowMs: number): boolean {
    return nowMs < this.#expiresAtMs;
  }

  /** What was nobody's when the tenant's first object answered last. */
  get free(): Levels {
    return this.#free;
  }
}
