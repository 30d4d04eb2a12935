import { describe, expect, test } from "vitest";
import { assert } from "../../../src/base/assert.ts";
import { callPool } from "../../../src/pool/pool-call.ts";
import type { PoolEffect } from "../../../src/pool/pool-effect.ts";
import type { LeaseId, ReplicaId, RequestId } from "../../../src/protocol/ids.ts";
import { aPool } from "../../support/pool-builders.ts";
import { RandomCalls, TIGHT_LIMITS } from "./random-calls.ts";

const SEEDS = Array.from({ length: 24 }, (_, index) => index + 1);
const CALLS = 300;

/** What a caller of a pool may rely on, checked effect by effect. */
class Verdicts {
  readonly counts = new Map<string, number>();
  readonly #open = new Set<RequestId>();
  readonly #leases = new Map<LeaseId, { requestId: RequestId; replicaId: ReplicaId }>();
  readonly #displacedAtMs = new Map<ReplicaId, number>();
  readonly #displaced = new Set<RequestId>();
  readonly #started = new Set<LeaseId>();

  offered(requestId: RequestId): void {
    this.#open.add(requestId);
  }

  started(leaseId: LeaseId): void {
    this.#started.add(leaseId);
  }

  get waiting(): number {
    return this.#open.size;
  }

  check(effect: PoolEffect, nowMs: number): void {
    switch (effect.kind) {
      case "ask-prefixes":
        break;
      case "wake":
        assert(effect.atMs > nowMs, "a wake is for later");
        break;
      case "dispatch":
        assert(this.#open.delete(effect.requestId), "an offer gets one verdict");
        this.#leases.set(effect.leaseId, { ...effect, replicaId: effect.dispatch.replicaId });
        break;
      case "hedge": {
        const { requestId, leaseId } = effect;
        const { replicaId } = effect.dispatch;
        const others = [...this.#leases.values()].filter((lease) => lease.requestId === requestId);
        assert(others.length > 0, "only what was dispatched is hedged");
        assert(others.at(-1)?.replicaId !== replicaId, "a hedge goes to another replica");
        this.#leases.set(leaseId, { requestId, replicaId });
        break;
      }
      case "reject":
        assert(this.#open.delete(effect.requestId), "an offer gets one verdict");
        break;
      case "displace":
        this.#checkDisplaced(effect.leaseId, nowMs);
        break;
    }
    const name = effect.kind === "reject" ? effect.rejection.reason : effect.kind;
    this.counts.set(name, (this.counts.get(name) ?? 0) + 1);
  }

  #checkDisplaced(leaseId: LeaseId, nowMs: number): void {
    const lease = this.#leases.get(leaseId);
    if (lease === undefined) throw new Error("Only a lease that was given is displaced");
    const { requestId, replicaId } = lease;
    assert(!this.#started.has(leaseId), "what has begun is not displaced");
    assert(!this.#displaced.has(requestId), "nobody is displaced twice");
    const lastAtMs = this.#displacedAtMs.get(replicaId) ?? -Infinity;
    assert(nowMs - lastAtMs >= 100, "a replica gives one up a tenth of a second");
    this.#displaced.add(requestId);
    this.#displacedAtMs.set(replicaId, nowMs);
  }
}

describe("a pool that is told anything in any order", () => {
  test("keeps its laws after every call, and is empty when everybody has left", () => {
    const seen = new Map<string, number>();
    for (const seed of SEEDS) {
      const pool = aPool({ seed, limits: TIGHT_LIMITS });
      const calls = new RandomCalls(seed);
      const verdicts = new Verdicts();
      for (let index = 0; index < CALLS; index += 1) {
        const call = calls.next();
        if (call.kind === "offer") verdicts.offered(call.offer.requestId);
        if (call.kind === "started") verdicts.started(call.leaseId);
        const effects = callPool(pool, call, calls.nowMs);
        for (const effect of effects) verdicts.check(effect, calls.nowMs);
        calls.heed(effects);
        pool.checkInvariants();
        expect(pool.status(calls.nowMs).queued, `seed ${seed}`).toBe(verdicts.waiting);
      }
      for (let call = calls.nextEnding(); call !== undefined; call = calls.nextEnding()) {
        const effects = callPool(pool, call, calls.nowMs);
        for (const effect of effects) verdicts.check(effect, calls.nowMs);
        calls.heed(effects);
        pool.checkInvariants();
      }
      expect(pool.status(calls.nowMs)).toMatchObject({ queued: 0, leases: 0 });
      for (const { present } of pool.state.tenants.values()) expect(present).toBe(0);
      for (const [name, count] of verdicts.counts) seen.set(name, (seen.get(name) ?? 0) + count);
      const { continuations } = pool.state.totals;
      for (const [result, count] of Object.entries(continuations)) {
        const name = `continuation-${result}`;
        seen.set(name, (seen.get(name) ?? 0) + count);
      }
    }
    // A law that no call could have broken proves nothing: each verdict occurs.
    for (const verdict of [
      "dispatch",
      "hedge",
      "displace",
      "wake",
      "infeasible",
      "out-of-profile",
      "deadline-passed",
      "queue-full",
      "no-replica",
      "closed",
      "unattainable",
      "withdrawn",
      "continuation-completed",
      "continuation-failed",
      "continuation-refused",
    ]) {
      expect([verdict, (seen.get(verdict) ?? 0) > 0]).toEqual([verdict, true]);
    }
  });

  test("keeps them where replicas have roles", () => {
    let splits = 0;
    for (const seed of SEEDS) {
      const pool = aPool({ seed, limits: { ...TIGHT_LIMITS, leasesMax: 30 } });
      const calls = new RandomCalls(seed, {}, ["prefill", "decode", seed % 2 ? "decode" : "mixed"]);
      for (let index = 0; index < 2 * CALLS; index += 1) {
        calls.heed(callPool(pool, calls.next(), calls.nowMs));
        pool.checkInvariants();
      }
      for (let call = calls.nextEnding(); call !== undefined; call = calls.nextEnding()) {
        calls.heed(callPool(pool, call, calls.nowMs));
        pool.checkInvariants();
      }
      const { split, leases, replicas } = pool.status(calls.nowMs);
      expect([seed, leases, replicas.map(({ outstanding }) => outstanding)]).toEqual([
        seed,
        0,
        replicas.map(() => 0),
      ]);
      splits += split;
    }
    expect(splits).toBeGreaterThan(100);
  });
});
