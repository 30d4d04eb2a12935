import type { ReplicaId, TenantId } from "../protocol/ids.ts";
import { chargedWork, costMsOf } from "./intake.ts";
import type { Lease } from "./lease-book.ts";
import type { PoolParts } from "./pool-parts.ts";
import type { PoolState } from "./pool-state.ts";
import { paceOf } from "./replica-waits.ts";

/** Every revision looks at all that runs. Once a second, the others of a runaway lost 0.3 points more. */
const REVISION_INTERVAL_MS = 500;

/** How fast a replica decodes, and up to when that is known. */
interface Pace {
  readonly tpotMs: number;
  readonly heardAtMs: number;
}

/**
 * Charges requests what is expected of them by now, rather than what was before they began. One that goes
 * on beyond its forecast is charged more while it does, and gets back at its end what it did not come to:
 * otherwise a tenant whose answers grow long is within its guarantee until the first of them have ended.
 *
 * Where that happens too often to be chance, what was learned of the tenant's lengths holds no longer:
 * it is forgotten but for a little, and what runs at present is learned in its place.
 */
export class RunningCosts {
  readonly #parts: PoolParts;
  readonly #state: PoolState;

  constructor(parts: PoolParts, state: PoolState) {
    this.#parts = parts;
    this.#state = state;
  }

  /** May be called as often as one likes. */
  revise(nowMs: number): void {
    if (!this.#parts.mechanisms.revision) return;
    const revisedAtMs = this.#state.costsRevisedAtMs ?? -Infinity;
    if (nowMs - revisedAtMs < REVISION_INTERVAL_MS) return;
    this.#state.costsRevisedAtMs = nowMs;
    const { tenants } = this.#parts;
    const paces = this.#paces(nowMs);
    for (const lease of this.#parts.leases) {
      const pace = paces.get(lease.replicaId);
      if (lease.startedAtMs === undefined || lease.isLost || pace === undefined) continue;
      if (!lease.isCharged) continue;
      // Who is guaranteed nothing takes nothing that is, and takes turns by what was predicted.
      if (tenants.shareOf(lease.tenantId).guaranteedRatio === 0) continue;
      const fromMs = lease.countedUntilMs ?? lease.startedAtMs;
      if (pace.heardAtMs <= fromMs) continue;
      lease.tokensSoFar += (pace.heardAtMs - fromMs) / pace.tpotMs;
      lease.countedUntilMs = pace.heardAtMs;
      this.#revise(lease, nowMs);
    }
    const surprising = tenants.judgeSurprises(nowMs);
    if (surprising.size > 0) this.#learnAnew(surprising, nowMs);
  }

  /**
   * Milliseconds a token of those who decode on each replica, no fewer than its steps take at present, and up to
   * when it was heard of; none on one that is ejected, as nobody knows whether what runs there goes on. With too
   * many tokens taken to be there, an engine that is slow, or dead, looks like answers that are long.
   */
  #paces(nowMs: number): Map<ReplicaId, Pace> {
    const paces = new Map<ReplicaId, Pace>();
    for (const replica of this.#parts.replicas) {
      if (replica.conditionAt(nowMs) !== "ready") continue;
      const stepMs = replica.lastReport?.stepMs ?? 0;
      const tpotMs = Math.max(stepMs, paceOf(replica.loadAt(nowMs)));
      paces.set(replica.replicaId, {
        tpotMs: replica.health.isEjected ? Infinity : tpotMs,
        heardAtMs: nowMs - replica.reportAgeMs(nowMs),
      });
    }
    return paces;
  }

  #revise(lease: Lease, nowMs: number): void {
    const { intake, tenants, queue } = this.#parts;
    const { emittedTokens, outputTokensMax = Infinity, account, tenantId } = lease;
    const soFarTokens = Math.min(lease.tokensSoFar, outputTokensMax);
    const leftTokens = intake.outputLengths.residualTokens(
      lease,
      emittedTokens + soFarTokens,
      emittedTokens + outputTokensMax,
    );
    const work = chargedWork(lease, soFarTokens + leftTokens);
    const deltaMs = costMsOf(work, this.#parts.capacity(nowMs)) - lease.chargedMs;
    if (deltaMs <= 0) return;
    lease.chargedMs += deltaMs;
    tenants.surprise(tenantId, deltaMs, nowMs);
    queue.correct(account, deltaMs);
    if (!account.isInProfile) return;
    tenants.correct(tenantId, deltaMs, this.#parts.rateMsPerMs(nowMs), nowMs);
  }

  /**
   * Again with every revision until expectations are right. The first to end are the shortest, so those that
   * run are learned of as well, more than once: what was known before counts for less and less beside them.
   */
  #learnAnew(tenantIds: ReadonlySet<TenantId>, nowMs: number): void {
    const { intake, leases, waits } = this.#parts;
    for (const tenantId of tenantIds) intake.outputLengths.doubt(tenantId);
    for (const lease of leases) {
      if (lease.startedAtMs === undefined || !tenantIds.has(lease.tenantId)) continue;
      const outputTokens = lease.emittedTokens + Math.max(1, Math.round(lease.tokensSoFar));
      intake.outputLengths.learn(lease, outputTokens, nowMs, { isCensored: true });
    }
    waits.forget();
  }
}
