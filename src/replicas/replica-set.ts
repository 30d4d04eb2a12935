import { assert } from "../base/assert.ts";
import type { LeaseId, ReplicaId } from "../protocol/ids.ts";
import type { ReplicaOptions, ReplicaSettings, ReplicaState } from "./replica-state.ts";
import { ListedNames } from "./listed-names.ts";
import { prefixKeysMaxOf } from "./prefix-index.ts";
import { Replica } from "./replica.ts";

export interface ReplicaSetOptions extends ReplicaOptions {
  readonly replicasMax: number;
  /** Which share of the replicas in use may be ejected at once; never the last that is ready. */
  readonly ejectedRatioMax?: number;
}

/** What a {@link ReplicaSet} remembers. */
export type ReplicaSetState = Map<ReplicaId, ReplicaState>;

/** A dispatch on a replica. */
export interface DispatchPlace {
  readonly replicaId: ReplicaId;
  readonly dispatchNumber: number;
}

/** When half of the replicas fail, it is more likely what is sent to them, or the way there. */
const EJECTED_RATIO_MAX = 0.5;

/**
 * The replicas of a pool: those in use, at most `replicasMax`, and those that left the
 * configuration while requests of ours still run there.
 */
export class ReplicaSet implements Iterable<Replica> {
  readonly state: ReplicaSetState;
  readonly #options: ReplicaSetOptions;
  readonly #replicas = new Map<ReplicaId, Replica>();
  readonly #listedNames = new ListedNames();

  constructor(options: ReplicaSetOptions, state: ReplicaSetState = new Map()) {
    const prefixKeysMax = prefixKeysMaxOf(state.size);
    this.#options = { listedNames: this.#listedNames, ...options };
    this.state = state;
    for (const [replicaId, replicaState] of state) {
      this.#replicas.set(
        replicaId,
        new Replica(replicaState.settings, { prefixKeysMax, ...this.#options }, replicaState),
      );
    }
  }

  /** Follows the configuration; replicas beyond the bound are not used. */
  configure(configured: readonly ReplicaSettings[]): void {
    const used = new Map(
      configured
        .slice(0, this.#options.replicasMax)
        .map((settings) => [settings.replicaId, settings]),
    );
    for (const replica of this.#replicas.values()) {
      if (used.has(replica.replicaId)) continue;
      replica.remove();
      this.#forgetIfDone(replica);
    }
    for (const [replicaId, settings] of used) {
      const known = this.#replicas.get(replicaId);
      if (known === undefined) this.#add(settings);
      else known.configure(settings);
    }
    const prefixKeysMax = this.#options.prefixKeysMax ?? prefixKeysMaxOf(this.#replicas.size);
    for (const { prefixes } of this.#replicas.values()) prefixes.limitTo(prefixKeysMax);
  }

  get(replicaId: ReplicaId): Replica | undefined {
    return this.#replicas.get(replicaId);
  }

  /** Returns the replica in use that dials in from this URL; plain servers do not. */
  at(endpointUrl: string): Replica | undefined {
    for (const replica of this.#replicas.values()) {
      if (replica.isRemoved || replica.plain !== undefined) continue;
      if (replica.endpointUrl === endpointUrl) return replica;
    }
    return undefined;
  }

  [Symbol.iterator](): Iterator<Replica> {
    return this.#replicas.values();
  }

  /** Gives back the slot of a dispatch, and forgets a removed replica with its last request. */
  release({ replicaId, dispatchNumber }: DispatchPlace): void {
    const replica = this.#replicas.get(replicaId);
    assert(replica !== undefined, "a replica is known while a request holds a slot there");
    replica.release(dispatchNumber);
    this.#forgetIfDone(replica);
  }

  /** A dispatch failed by its replica's fault, which may eject the replica. */
  failed({ replicaId, dispatchNumber }: DispatchPlace, nowMs: number): void {
    const replica = this.#replicas.get(replicaId);
    replica?.health.failed(dispatchNumber, nowMs, this.#mayEject(replica, nowMs));
  }

  /** A dispatch's stream has paused for too long, which may eject its replica. */
  stalled({ replicaId, dispatchNumber }: DispatchPlace, nowMs: number): void {
    const replica = this.#replicas.get(replicaId);
    replica?.health.stalled(dispatchNumber, nowMs, this.#mayEject(replica, nowMs));
  }

  /** A dispatch went well, which brings a probed replica back. */
  succeeded({ replicaId, dispatchNumber }: DispatchPlace, nowMs: number): void {
    this.#replicas.get(replicaId)?.health.succeeded(dispatchNumber, nowMs);
  }

  /** Lets ejected replicas be probed at once where no other is ready: a doubtful one is better than none. */
  probeIfNoneIsWell(nowMs: number): void {
    const ready = [...this.#replicas.values()].filter(
      (replica) => replica.conditionAt(nowMs) === "ready",
    );
    if (ready.some(({ health }) => !health.isEjected)) return;
    for (const { health } of ready) health.probeNow(nowMs);
  }

  /** When the next of those that are left alone may be asked again; `undefined` where none is left alone. */
  nextProbeAtMs(nowMs: number): number | undefined {
    let nextAtMs: number | undefined;
    for (const { isRemoved, health, quota } of this.#replicas.values()) {
      for (const untilMs of [health.ejectedUntilMs, quota.state.heldUntilMs]) {
        if (isRemoved || untilMs === undefined || untilMs <= nowMs) continue;
        nextAtMs = Math.min(untilMs, nextAtMs ?? Infinity);
      }
    }
    return nextAtMs;
  }

  /** Whether any replica in use is one that reports. */
  get hasReporting(): boolean {
    for (const { isRemoved, plain } of this.#replicas.values()) {
      if (!isRemoved && plain === undefined) return true;
    }
    return false;
  }

  /** Share of the replicas in use that are ejected or probed; 0 of none. */
  get ejectedRatio(): number {
    let used = 0;
    let ejected = 0;
    for (const replica of this.#replicas.values()) {
      if (replica.isRemoved) continue;
      used += 1;
      if (replica.health.isEjected) ejected += 1;
    }
    return used === 0 ? 0 : ejected / used;
  }

  /** `isLive` knows which leases are alive; every request on a replica holds one of them. */
  checkInvariants(isLive?: (leaseId: LeaseId) => boolean): void {
    let usedCount = 0;
    assert(this.state.size === this.#replicas.size, "every replica is remembered");
    for (const replica of this.#replicas.values()) {
      assert(this.state.get(replica.replicaId) === replica.state, "and by its own state");
      replica.checkInvariants(isLive);
      if (!replica.isRemoved) usedCount += 1;
      else assert(replica.outstanding > 0, "a removed replica stays only for its requests");
    }
    assert(this.#areNamesCounted(), "a name is counted once for each replica that lists it");
    assert(usedCount <= this.#options.replicasMax, "the replicas in use are within their bound");
  }

  #areNamesCounted(): boolean {
    const counts = new Map<string, number>();
    for (const { models } of this.#replicas.values()) {
      for (const name of models.listed) counts.set(name, (counts.get(name) ?? 0) + 1);
    }
    const counted = this.#listedNames.counts();
    return (
      counts.size === counted.size && [...counts].every(([name, n]) => counted.get(name) === n)
    );
  }

  #add(settings: ReplicaSettings): void {
    const replica = new Replica(settings, this.#options);
    this.#replicas.set(replica.replicaId, replica);
    this.state.set(replica.replicaId, replica.state);
  }

  /** One more may go if enough are left, and at least one of them could take its work now. */
  #mayEject(candidate: Replica, nowMs: number): boolean {
    let used = 0;
    let ejected = 0;
    let hasOther = false;
    for (const replica of this.#replicas.values()) {
      if (replica.isRemoved) continue;
      used += 1;
      if (replica === candidate) continue;
      if (replica.health.isEjected) ejected += 1;
      else if (replica.conditionAt(nowMs) === "ready") hasOther = true;
    }
    const ejectedRatioMax = this.#options.ejectedRatioMax ?? EJECTED_RATIO_MAX;
    return hasOther && ejected + 1 <= used * ejectedRatioMax;
  }

  #forgetIfDone(replica: Replica): void {
    if (!replica.isRemoved || replica.outstanding > 0) return;
    this.#replicas.delete(replica.replicaId);
    this.state.delete(replica.replicaId);
  }
}
