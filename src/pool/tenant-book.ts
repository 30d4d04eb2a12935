import { assert } from "../base/assert.ts";
import type { TenantId } from "../protocol/ids.ts";
import type { AttainmentEvent, AttainmentWindowState } from "../slo/attainment-window.ts";
import { AttainmentWindow } from "../slo/attainment-window.ts";
import { budgetRatioOf, isContractBroken } from "../slo/error-budget.ts";
import type { SloTargets } from "../slo/targets.ts";
import type { CostBucketState } from "../tenants/cost-bucket.ts";
import { CostBucket } from "../tenants/cost-bucket.ts";
import type { GuaranteeBucketState, GuaranteeRates } from "../tenants/guarantee-bucket.ts";
import { emptyGuaranteeBucket, GuaranteeBucket } from "../tenants/guarantee-bucket.ts";
import type { CostSurpriseState } from "../tenants/cost-surprise.ts";
import { CostSurprise, noSurprise } from "../tenants/cost-surprise.ts";
import type { TenantShare } from "../tenants/share.ts";

/** What is remembered of one tenant. */
interface TenantState {
  readonly bucket: GuaranteeBucketState;
  readonly surprise: CostSurpriseState;
  readonly window: AttainmentWindowState;
  share: TenantShare;
  budgetRatio: number;
  /** Its TTFT target without what a prompt adds; `Infinity` without one. */
  ttftMs: number;
  arrivedAtMs: number;
  /** Requests of its that wait or run here; while there are any it is not forgotten. */
  present: number;
}

/** The tenants heard of, the one longest unheard of first. */
export type TenantBookState = Map<TenantId, TenantState>;

/** Over so long a tenant's promise is looked at to say whether excess must be held back more. */
const BURN_WINDOW_MS = 300_000;
/** What is left of a burst where nobody can say what it will cost. */
const SURPRISED_BURST_RATIO = 0.1;

interface Account {
  readonly state: TenantState;
  readonly bucket: GuaranteeBucket;
  readonly surprise: CostSurprise;
  readonly window: AttainmentWindow;
}

/**
 * What a pool knows of each tenant: what of its guarantee is used, and whether its promise holds.
 * At its bound the tenant longest unheard of is forgotten, but never
 * one with requests here, which the pool's own bounds limit.
 */
export class TenantBook {
  readonly state: TenantBookState;
  readonly #tenantsMax: number;
  readonly #accounts = new Map<TenantId, Account>();
  readonly #joint: CostBucket;

  /** `joint` is what all tenants together have taken of what they are guaranteed. */
  constructor(
    tenantsMax: number,
    state: TenantBookState = new Map(),
    joint: CostBucketState = new CostBucket().state,
  ) {
    this.#tenantsMax = tenantsMax;
    this.state = state;
    this.#joint = new CostBucket(joint);
    for (const [tenantId, tenant] of state) this.#accounts.set(tenantId, this.#open(tenant));
  }

  get size(): number {
    return this.state.size;
  }

  /** Notes that a tenant offers a request, under the share and targets that it has now. */
  arrives(tenantId: TenantId, share: TenantShare, targets: SloTargets, nowMs: number): void {
    const known = this.state.get(tenantId);
    const state = known ?? newTenant(share);
    state.share = share;
    state.budgetRatio = budgetRatioOf(targets);
    state.ttftMs = targets.ttft?.limitMs ?? Infinity;
    state.arrivedAtMs = nowMs;
    state.present += 1;
    this.state.delete(tenantId);
    if (known === undefined) this.#makeRoom();
    this.state.set(tenantId, state);
    if (known === undefined) this.#accounts.set(tenantId, this.#open(state));
  }

  /** Notes that one of a tenant's requests neither waits nor runs here any more. */
  leaves(tenantId: TenantId): void {
    const tenant = this.#account(tenantId).state;
    tenant.present -= 1;
    assert(tenant.present >= 0, "a request leaves once");
    if (tenant.present === 0 && this.state.size > this.#tenantsMax) this.#forget(tenantId);
  }

  /** Takes a request's cost from what its tenant is guaranteed; false: it is excess. */
  take(tenantId: TenantId, costMs: number, capacityMsPerMs: number, nowMs: number): boolean {
    const account = this.#account(tenantId);
    return account.bucket.take(costMs, ratesOf(account, capacityMsPerMs), nowMs);
  }

  /** Corrects what was taken by what it came to; negative gives back. */
  correct(tenantId: TenantId, deltaMs: number, capacityMsPerMs: number, nowMs: number): void {
    const account = this.#account(tenantId);
    account.bucket.correct(deltaMs, ratesOf(account, capacityMsPerMs), nowMs);
  }

  /** What one of a tenant's requests is expected to cost has changed by so much since it was sent. */
  surprise(tenantId: TenantId, deltaMs: number, nowMs: number): void {
    this.#account(tenantId).surprise.add(deltaMs, nowMs);
  }

  /** One of a tenant's requests has ended that was foreseen to cost so much. */
  foreseen(tenantId: TenantId, costMs: number, nowMs: number): void {
    this.#account(tenantId).surprise.ended(costMs, nowMs);
  }

  /** Returns the tenants whose requests cost more than is foreseen. Linear in the tenants. */
  judgeSurprises(nowMs: number): ReadonlySet<TenantId> {
    const surprising = new Set<TenantId>();
    for (const [tenantId, { surprise }] of this.#accounts) {
      if (surprise.judge(nowMs)) surprising.add(tenantId);
    }
    return surprising;
  }

  /** Whether a tenant's requests cost more than is foreseen at present. */
  isSurprising(tenantId: TenantId): boolean {
    return this.#account(tenantId).surprise.isSurprised;
  }

  /** How long until a request of this cost would be within the guarantee. */
  inProfileAfterMs(
    tenantId: TenantId,
    costMs: number,
    capacityMsPerMs: number,
    nowMs: number,
  ): number {
    const account = this.#account(tenantId);
    return account.bucket.inProfileAfterMs(costMs, ratesOf(account, capacityMsPerMs), nowMs);
  }

  /** Counts what became of one of a tenant's requests. */
  count(tenantId: TenantId, event: AttainmentEvent, nowMs: number): void {
    this.#account(tenantId).window.add(event, nowMs);
  }

  shareOf(tenantId: TenantId): TenantShare {
    return this.#account(tenantId).state.share;
  }

  /** A tenant's counts, for people and dashboards. */
  windowOf(tenantId: TenantId): AttainmentWindow {
    return this.#account(tenantId).window;
  }

  /**
   * Whether any tenant's admitted requests miss what was promised at present. Refusals in profile have
   * their own way to be heard, and would be heard for as long as the window is. Linear in the tenants.
   */
  isAnyBurning(nowMs: number): boolean {
    for (const { state, window } of this.#accounts.values()) {
      const counts = { ...window.sum(BURN_WINDOW_MS, nowMs), rejectedInProfile: 0 };
      if (isContractBroken(counts, state.budgetRatio)) return true;
    }
    return false;
  }

  /** The tightest TTFT target of those who are guaranteed something and came in the last five minutes. */
  tightestTtftMs(nowMs: number): number {
    let tightestMs = Infinity;
    for (const { share, ttftMs, arrivedAtMs } of this.state.values()) {
      if (share.guaranteedRatio <= 0 || nowMs - arrivedAtMs > BURN_WINDOW_MS) continue;
      tightestMs = Math.min(tightestMs, ttftMs);
    }
    return tightestMs;
  }

  checkInvariants(): void {
    const absent = [...this.state.values()].filter(({ present }) => present === 0).length;
    assert(
      absent === 0 || this.state.size <= this.#tenantsMax,
      "the tenants are within their bound",
    );
    assert(this.#accounts.size === this.state.size, "every tenant has one account");
    for (const [tenantId, { state, surprise, window }] of this.#accounts) {
      assert(this.state.get(tenantId) === state, "an account is the one remembered");
      assert(state.present >= 0, "nobody has a negative number of requests");
      surprise.checkInvariants();
      window.checkInvariants();
    }
  }

  #account(tenantId: TenantId): Account {
    const account = this.#accounts.get(tenantId);
    assert(account !== undefined, "a tenant with requests here is known");
    return account;
  }

  #open(state: TenantState): Account {
    return {
      state,
      bucket: new GuaranteeBucket(this.#joint, state.bucket),
      surprise: new CostSurprise(state.surprise),
      window: new AttainmentWindow({}, state.window),
    };
  }

  #makeRoom(): void {
    if (this.state.size < this.#tenantsMax) return;
    for (const [tenantId, { present }] of this.state) {
      if (present > 0) continue;
      this.#forget(tenantId);
      return;
    }
  }

  #forget(tenantId: TenantId): void {
    this.state.delete(tenantId);
    this.#accounts.delete(tenantId);
  }
}

function newTenant(share: TenantShare): TenantState {
  return {
    bucket: emptyGuaranteeBucket(),
    surprise: noSurprise(),
    window: new AttainmentWindow().state,
    share,
    budgetRatio: 0,
    ttftMs: Infinity,
    arrivedAtMs: 0,
    present: 0,
  };
}

function ratesOf({ state: { share }, surprise }: Account, capacityMsPerMs: number): GuaranteeRates {
  return {
    rateMsPerMs: share.guaranteedRatio * capacityMsPerMs,
    poolRateMsPerMs: capacityMsPerMs,
    ...(surprise.isSurprised && { burstRatio: SURPRISED_BURST_RATIO }),
  };
}
