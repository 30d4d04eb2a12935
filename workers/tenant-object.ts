import { DurableObject } from "cloudflare:workers";
import type { RequestId } from "../src/protocol/ids.ts";
import type { SloSums } from "../src/slo/slo-record.ts";
import { RateLimits } from "../src/tenants/rate-limits.ts";
import { needOf, NO_LEVELS } from "../src/tenants/levels.ts";
import type { LeaseGrant, LeaseRequest } from "../src/tenants/shard-allotments.ts";
import type {
  LimitedRequest,
  LimitsHold,
  LimitsMax,
  LimitsVerdict,
} from "../src/tenants/tenant-limits.ts";
import type { ShardPlace } from "../src/tenants/tenant-shards.ts";
import { shardName } from "../src/tenants/tenant-shards.ts";
import { ofWhole } from "../src/tenants/whole-verdict.ts";
import { TenantLimits } from "../src/tenants/tenant-limits.ts";
import type { UsageEnding } from "../src/tenants/usage-ending.ts";
import type { MonthStanding } from "../src/tenants/usage-ledger.ts";
import { ROW_SILENCE_MS_MAX } from "../src/tenants/usage-ledger.ts";
import type { SettledRow, UsageRow } from "../src/tenants/usage-rows.ts";
import type { UsageTotals } from "../src/tenants/usage-totals.ts";
import { noUsage } from "../src/tenants/usage-totals.ts";
import type { Env } from "./env.ts";
import { logLine } from "./log.ts";
import { recordedUseOf } from "./recorded-use.ts";
import { nextLife, ShardLine } from "./shard-line.ts";
import { StoredAllotments } from "./stored-allotments.ts";
import { StoredRates } from "./stored-rates.ts";
import type { SloTold } from "./slo-told.ts";
import { StoredSlo } from "./stored-slo.ts";
import { StoredUsage } from "./stored-usage.ts";
import { TenantPermit } from "./tenant-permit.ts";
import { UsageOutbox } from "./usage-outbox.ts";
import { usageSinksOf } from "./usage-sinks.ts";

/** Whether a tenant's request may begin beside its others, and how the tenant's limits stand. */
export type PermitAnswer =
  /** The object has no part of the limits that is enough, and who could give it one does not answer. */
  | { readonly kind: "away" }
  | Extract<LimitsVerdict, { kind: "rejected" }>
  | {
      readonly kind: "granted";
      readonly standings: LimitsVerdict["standings"];
      readonly permit: TenantPermit;
    };

/** What asks for a permit, and by which of its tenant's classes it is judged. */
export interface TenantRequest extends LimitedRequest {
  readonly className?: string;
}

/** What one key has used, and its tenant in the current month. */
export interface KeyUsage {
  readonly totals: UsageTotals;
  readonly month: MonthStanding;
  /** Requests of the tenant that are under way, or whose end is not known yet. */
  readonly openCount: number;
  /** Objects that the tenant may have been spread over. */
  readonly shardCount: number;
}

/** How often the ledger is looked through for rows whose holders are gone. */
const SWEEP_MS = ROW_SILENCE_MS_MAX;

/**
 * The single writer of what one tenant uses, body of `TenantLimits`; found by tenant id.
 *
 * Permits live in memory: each one outstanding keeps the object there. When the object dies all
 * the same (a deploy, a crash), the open rows of its ledger stand for them in its next life, until their
 * holders settle them or are silent for too long. What counts by the minute is stored behind,
 * since the object forgets all in less than that; requests that were under way then count as reserved
 * until their minute is over. The ledger forgets nothing that anybody was told of: a request's row is
 * on disk before its client sees a token, and what it used before its client sees the end.
 */
export class TenantObject extends DurableObject<Env> {
  readonly #storage: DurableObjectStorage;
  readonly #rates: StoredRates;
  readonly #usage: StoredUsage;
  readonly #outbox: UsageOutbox;
  readonly #limits: TenantLimits;
  readonly #shards: StoredAllotments;
  readonly #slo: StoredSlo;
  #shardLine: ShardLine | undefined;
  /** When the object is woken, as far as this life of it knows. */
  #alarmAtMs = Infinity;

  constructor(state: DurableObjectState, env: Env) {
    super(state, env);
    this.#storage = state.storage;
    this.#rates = new StoredRates(state.storage);
    this.#usage = new StoredUsage(state.storage, Date.now());
    this.#outbox = new UsageOutbox(state, usageSinksOf(env));
    this.#usage.ledger.exportedNumber = this.#outbox.sentNumber;
    this.#limits = new TenantLimits(new RateLimits(this.#rates.load()), this.#usage.ledger);
    this.#shards = new StoredAllotments(state.storage);
    this.#slo = new StoredSlo(state.storage);
  }

  /**
   * Asks for a place among the requests that the tenant may run at once, for the most that this one can
   * take of the tenant's minute and month, and for its row in the ledger: all or nothing. It answers from
   * memory, unless the object is one of several whose part of the limits is not enough. Asking again for the
   * same request takes nothing more.
   */
  async acquire(request: TenantRequest, place?: ShardPlace): Promise<PermitAnswer> {
    const isFirst = place === undefined || place.shard === 0;
    const verdict = isFirst
      ? this.#acquireAsFirst(request)
      : await this.#acquireAsShard(request, place);
    if (verdict === undefined) return { kind: "away" };
    if (verdict.kind === "rejected") {
      const refused = { kind: "refused", reason: verdict.limit, isOurs: false } as const;
      if (request.className !== undefined) this.#slo.count(request.className, refused, Date.now());
      return verdict;
    }
    const { hold, standings } = verdict;
    // Who is limited in nothing by the minute costs no write for it.
    const isRated = Object.keys(standings).length > 0;
    if (isRated) this.#rates.saveSoon(this.#limits.ratesState);
    const recorded = this.#save("soon");
    // Nobody may ask, and then it is not for this to end in an unhandled rejection.
    recorded.catch(() => {});
    const permit = new TenantPermit({
      recorded: () => recorded,
      released: (ending, told) => this.#release(hold, ending, isRated, told),
    });
    return { kind: "granted", standings, permit };
  }

  /** Gives another of the tenant's objects its part of the limits, once that is on disk. */
  async lease(
    request: LeaseRequest,
    { limitsMax, shardCount }: { readonly limitsMax: LimitsMax; readonly shardCount: number },
  ): Promise<LeaseGrant | undefined> {
    const nowMs = Date.now();
    const { month } = this.#usage.ledger.monthStanding(nowMs);
    const ownTaken = this.#limits.taken(nowMs);
    const standing = { limitsMax, shardCount, ownTaken, month };
    return this.#shards.renew(request, standing, nowMs);
  }

  /** Takes a request's row down whose permit went with a former life of the object. */
  async record(row: UsageRow): Promise<void> {
    this.#usage.ledger.open(row, Date.now());
    await this.#save();
  }

  /** Settles a request whose permit went likewise; what was settled before stays as it is. */
  async settle(row: UsageRow, ending: UsageEnding, told?: SloTold): Promise<void> {
    if (this.#usage.ledger.settle(row, ending, Date.now())) this.#tell(told);
    await this.#save();
  }

  /** Hears how far a request is that takes long. */
  async checkpoint(requestId: RequestId, outputTokens: number): Promise<void> {
    this.#usage.ledger.checkpoint(requestId, outputTokens, Date.now());
    await this.#save();
  }

  /** Says what a key has used; of one that was never used nothing. */
  async usageOf(keyName: string): Promise<KeyUsage> {
    const { ledger } = this.#usage;
    return {
      totals: ledger.state.totalsByKey.get(keyName) ?? noUsage(),
      month: ledger.monthStanding(Date.now()),
      openCount: ledger.state.open.size,
      shardCount: await this.shardCount(),
    };
  }

  /** Says what each key has used, as far as keys are told apart. */
  async usageByKey(): Promise<{ name: string; totals: UsageTotals }[]> {
    const { totalsByKey } = this.#usage.ledger.state;
    return [...totalsByKey].map(([name, totals]) => ({ name, totals }));
  }

  /** Objects that the tenant may have been spread over, this one too. */
  async shardCount(): Promise<number> {
    return this.#shards.allotments.shardCount;
  }

  /** Says what became of the tenant's requests here, and over how many objects it is spread. */
  async sloSums(): Promise<{ readonly classes: readonly SloSums[]; readonly shardCount: number }> {
    return { classes: this.#slo.sums(Date.now()), shardCount: await this.shardCount() };
  }

  /** Counted requests after one, oldest first, as far as they are kept. */
  async settledAfter(number: number, countMax: number): Promise<readonly SettledRow[]> {
    // What is told as counted must not be forgotten afterwards.
    await this.#save();
    return this.#usage.settledAfter(number, countMax);
  }

  /** Settles the requests whose holders are gone, and tells what is counted to whatever is bound. */
  override async alarm(): Promise<void> {
    // What comes meanwhile is seen to at the end; until then this alarm is repeated, should it break off.
    this.#alarmAtMs = -Infinity;
    const { ledger } = this.#usage;
    const nowMs = Date.now();
    const recorded = await recordedUseOf(ledger.orphans(nowMs), this.env);
    const count = ledger.sweep(nowMs, recorded);
    if (count > 0) logLine("error", "usage-orphaned", { count });
    const lastNumber = ledger.state.totals.requests;
    await this.#save();
    await this.#outbox.send(this.#usage, lastNumber);
    ledger.exportedNumber = this.#outbox.sentNumber;
    this.#alarmAtMs = Infinity;
    this.#ensureAlarm();
  }

  #acquireAsFirst({ row, limitsMax }: LimitedRequest): LimitsVerdict {
    const nowMs = Date.now();
    const { allotments } = this.#shards;
    const { month } = this.#usage.ledger.monthStanding(nowMs);
    const ownMax = allotments.own(limitsMax, month, nowMs);
    const verdict = this.#limits.acquire({ row, limitsMax: ownMax }, nowMs);
    if (allotments.shardCount === 1) return verdict;
    return ofWhole(verdict, { limitsMax, need: needOf(row), free: NO_LEVELS });
  }

  async #acquireAsShard(
    request: LimitedRequest,
    place: ShardPlace,
  ): Promise<LimitsVerdict | undefined> {
    try {
      return await this.#lineOf(place).acquire(request);
    } catch (error) {
      logLine("error", "shard-without-part", { shard: place.shard, details: String(error) });
      return undefined;
    }
  }

  #lineOf({ tenantId, shard, shardCount }: ShardPlace): ShardLine {
    this.#shardLine ??= new ShardLine({
      shard,
      shardCount,
      life: nextLife(this.#storage),
      limits: this.#limits,
      firstOf: () => this.env.TENANTS.getByName(shardName(tenantId, 0)),
    });
    return this.#shardLine;
  }

  async #release(
    hold: LimitsHold,
    ending: UsageEnding | undefined,
    isRated: boolean,
    told?: SloTold,
  ): Promise<void> {
    if (this.#limits.release(hold, ending, Date.now())) this.#tell(told);
    if (isRated) this.#rates.saveSoon(this.#limits.ratesState);
    // That nothing is to be counted is nothing to wait for.
    if (ending !== undefined && ending.kind !== "refunded") await this.#save();
    else this.#save("soon").catch(() => {});
  }

  /** What is told twice is counted once: only with the first settlement. */
  #tell(told: SloTold | undefined): void {
    if (told !== undefined) this.#slo.count(told.className, told.event, Date.now());
  }

  async #save(urgency: "urgently" | "soon" = "urgently"): Promise<void> {
    this.#ensureAlarm();
    try {
      await this.#usage.saved(urgency);
    } catch (error) {
      logLine("error", "usage-not-stored", { details: String(error) });
      this.ctx.abort("The usage ledger could not be stored");
      throw error;
    }
  }

  /**
   * As long as rows are open somebody has to look whether their holders are gone, also after a crash; and
   * what is counted is to be told to whatever is bound.
   */
  #ensureAlarm(): void {
    const nowMs = Date.now();
    const { open, totals } = this.#usage.ledger.state;
    const sweepAtMs = open.size === 0 ? Infinity : nowMs + SWEEP_MS;
    const atMs = Math.min(sweepAtMs, this.#outbox.nextAtMs(totals.requests, nowMs));
    if (atMs >= this.#alarmAtMs) return;
    this.#alarmAtMs = atMs;
    const set = this.#storage.setAlarm(atMs, { allowUnconfirmed: true });
    set.catch(() => (this.#alarmAtMs = Infinity));
  }
}
