import * as z from "zod";
import type { Levels } from "../src/tenants/levels.ts";
import { LEVEL_NAMES, levelsBy, limitLevelsOf, needOf, NO_LEVELS } from "../src/tenants/levels.ts";
import type { LeaseGrant, LeaseRequest } from "../src/tenants/shard-allotments.ts";
import { ShardLease } from "../src/tenants/shard-lease.ts";
import type { LimitedRequest, LimitsMax, LimitsVerdict } from "../src/tenants/tenant-limits.ts";
import type { TenantLimits } from "../src/tenants/tenant-limits.ts";
import { ofWhole } from "../src/tenants/whole-verdict.ts";
import { logLine } from "./log.ts";
import { withinMs } from "./within-ms.ts";

/** What a shard needs of its tenant's first object. */
interface FirstStub {
  lease(
    request: LeaseRequest,
    tenant: { readonly limitsMax: LimitsMax; readonly shardCount: number },
  ): Promise<LeaseGrant | undefined>;
}

/** What a {@link ShardLine} connects. */
export interface ShardLineEnds {
  readonly shard: number;
  readonly shardCount: number;
  readonly life: number;
  readonly limits: TenantLimits;
  readonly firstOf: () => FirstStub;
}

/** A fifth of a lease's life: what is not used comes back so soon. */
const RENEW_MS = 2_000;
/** An object that takes longer is away; until it is back its shards have no more than they kept. */
const ANSWER_MS_MAX = 2_000;
/** After an answer that was not enough, nobody asks again for as much for so long, however many are refused. */
const NOTHING_LEFT_MS = 100;
/** Of requests that wait for the next answer; those beyond are decided by what there is. */
export const WAITING_MAX = 2_000;

/**
 * A shard's line to the first object of its tenant, which gives it its part of the limits. Requests that fit
 * the part are decided here. Those that do not wait for one more answer, all of them for the same.
 */
export class ShardLine {
  readonly #ends: ShardLineEnds;
  readonly #lease: ShardLease;
  /** Of the request that came last: a configuration changes them for all that follow. */
  #limitsMax: LimitsMax = {};
  /** What those need who wait for the next answer. */
  #waiting: Levels[] = [];
  #isBusy = false;
  /** What was refused last, and until when that is true of all that is no smaller. */
  #refused = { need: NO_LEVELS, untilAtMs: 0 };
  #asking: Promise<void> | undefined;
  #askingNext: Promise<void> | undefined;
  #isTending = false;

  constructor(ends: ShardLineEnds) {
    this.#ends = ends;
    this.#lease = new ShardLease(ends.shard, ends.life);
  }

  /** Decides a request by the shard's part of its tenant's limits. */
  async acquire(request: LimitedRequest): Promise<LimitsVerdict> {
    this.#limitsMax = request.limitsMax;
    this.#isBusy = true;
    const need = needOf(request.row);
    const isLeased = this.#lease.isLeased(Date.now());
    const first = isLeased || this.#isFull ? this.#decide(request) : undefined;
    const isDecided = first?.kind === "granted" || !this.#mayBecomeMore(need);
    const verdict =
      first !== undefined && isDecided ? first : await this.#decideWithMore(request, need);
    this.#tendSoon();
    return ofWhole(verdict, { limitsMax: request.limitsMax, need, free: this.#lease.free });
  }

  get #isFull(): boolean {
    return this.#waiting.length >= WAITING_MAX;
  }

  #mayBecomeMore(need: Levels): boolean {
    if (this.#isFull) return false;
    if (need.tokens > limitLevelsOf(this.#limitsMax).tokens) return false;
    const { need: refused, untilAtMs } = this.#refused;
    return Date.now() >= untilAtMs || LEVEL_NAMES.some((name) => need[name] < refused[name]);
  }

  async #decideWithMore(request: LimitedRequest, need: Levels): Promise<LimitsVerdict> {
    await this.#renewFor(need);
    const verdict = this.#decide(request);
    if (verdict.kind === "rejected") {
      this.#refused = { need, untilAtMs: Date.now() + NOTHING_LEFT_MS };
    }
    return verdict;
  }

  #decide({ row, limitsMax: whole }: LimitedRequest): LimitsVerdict {
    const { limits } = this.#ends;
    const nowMs = Date.now();
    const { month } = limits.ledger.monthStanding(nowMs);
    const limitsMax = this.#lease.limitsMax(whole, month, nowMs);
    return limits.acquire({ row, limitsMax }, nowMs);
  }

  #renewFor(...needs: readonly Levels[]): Promise<void> {
    this.#waiting.push(...needs);
    this.#askingNext ??= this.#askNext(this.#asking);
    return this.#askingNext;
  }

  /** One is asked at a time: what the shard keeps must not change under an answer. */
  async #askNext(before: Promise<void> | undefined): Promise<void> {
    await before?.catch(() => {});
    this.#asking = this.#askingNext;
    this.#askingNext = undefined;
    const { limits, firstOf, shardCount } = this.#ends;
    const sentAtMs = Date.now();
    const { month } = limits.ledger.monthStanding(sentAtMs);
    const [waiting, isBusy] = [this.#waiting, this.#isBusy];
    this.#waiting = [];
    this.#isBusy = false;
    const wish = { ...wishOf(waiting), isBusy, month };
    const request = this.#lease.ask(limits.taken(sentAtMs), wish);
    const tenant = { limitsMax: this.#limitsMax, shardCount };
    const grant = await withinMs(firstOf().lease(request, tenant), ANSWER_MS_MAX);
    // Copied, since what an answer brings goes when its stub is disposed of.
    if (grant !== undefined) this.#lease.take(request, structuredClone(grant), sentAtMs);
  }

  /** Renews the lease and gives back what is not used, for as long as there is anything. */
  #tendSoon(): void {
    if (this.#isTending) return;
    this.#isTending = true;
    setTimeout(() => void this.#tend(), RENEW_MS);
  }

  async #tend(): Promise<void> {
    this.#isTending = false;
    const wasBusy = this.#isBusy;
    try {
      await this.#renewFor();
    } catch (error) {
      logLine("error", "shard-not-renewed", {
        shard: this.#ends.shard,
        details: String(error),
      });
    }
    const { concurrency, requests, tokens } = this.#ends.limits.taken(Date.now());
    if (wasBusy || concurrency + requests + tokens > 0) this.#tendSoon();
  }
}

/** All of it, and of each level the least that one of them needs. */
function wishOf(needs: readonly Levels[]): { wants: Levels; least: Levels } {
  const wants = levelsBy((name) => needs.reduce((sum, need) => sum + need[name], 0));
  const [first = NO_LEVELS] = needs;
  const least = levelsBy((name) =>
    needs.reduce((min, need) => Math.min(min, need[name]), first[name]),
  );
  return { wants, least };
}

const LIFE_KEY = "shard-life";

/** Counts the lives of an object, so that nothing that an earlier one has asked counts any more. */
export function nextLife(storage: DurableObjectStorage): number {
  const life = z.int().default(0).parse(storage.kv.get(LIFE_KEY)) + 1;
  storage.kv.put(LIFE_KEY, life);
  return life;
}
