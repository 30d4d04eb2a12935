import { assert } from "../../src/base/assert.ts";
import type { Offer } from "../../src/pool/offer.ts";
import type { PoolEffect } from "../../src/pool/pool-effect.ts";
import { Pool } from "../../src/pool/pool.ts";
import type { ReplicaReport } from "../../src/protocol/engine-api.ts";
import type { LeaseId } from "../../src/protocol/ids.ts";
import { ModelId, PoolId, ReplicaId, RequestId, TenantId } from "../../src/protocol/ids.ts";

const EPOCH = "bench";
const MODEL = ModelId.parse("model");
const SLOTS = 16;
const BLOCK_TOKENS = 16;
const BLOCKS = 59_000;
const TENANTS = 32;
/** All that can be guaranteed is, so that some of those who wait are in profile and others are not. */
const GUARANTEED_RATIO = 0.9 / TENANTS;
/** An 8B model on a large GPU. */
const STEP: ReplicaReport["step"] = {
  fixedMs: 4.4,
  tokenMs: 0.0141,
  attendedPairMs: 9.8e-7,
  sequenceMs: 0.006,
  kvTokenMs: 3.1e-5,
};
const p99 = (limitMs: number) => ({ percentileRatio: 0.99, limitMs });
/** So patient that nobody is dropped while the clock creeps on. */
const TARGETS = { ttft: p99(50_000), tpot: p99(100) };
/** Between two calls: so little that no report grows old, and no two calls are of one instant. */
const CALL_MS = 0.01;

/** How full a pool is. */
export interface Crowd {
  readonly replicaCount: number;
  readonly waiting: number;
  /** Which share of the slots is taken; 1 where anybody waits. */
  readonly takenRatio: number;
}

/** A pool with so many requests, running and waiting, kept so from one measured call to the next. */
export class CrowdedPool {
  readonly #pool = new Pool({ epoch: EPOCH, startedAtMs: -60_000, seed: 1 });
  readonly #replicaCount: number;
  readonly #leases: LeaseId[] = [];
  readonly #runningRequests: number;
  #offered = 0;
  #dispatched = 0;
  #reports = 0;
  #nowMs = 0;

  constructor({ replicaCount, waiting, takenRatio }: Crowd) {
    this.#replicaCount = replicaCount;
    this.#runningRequests = SLOTS * takenRatio;
    const replicas = Array.from({ length: replicaCount }, (_, index) => ({
      replicaId: replicaIdOf(index),
      endpointUrl: urlOf(index),
    }));
    const poolId = PoolId.parse("bench");
    this.#pool.configure({ poolId, engine: "sluice", replicas, queueMax: 10_000 }, 0);
    for (let index = 0; index < replicaCount; index += 1) this.#connect(index);
    this.reportAll();
    while (this.#dispatched < replicaCount * this.#runningRequests) this.offer();
    for (let index = 0; index < waiting; index += 1) this.offer();
    this.reportAll();
    assert(this.#pool.status(this.#nowMs).queued === waiting, "those who are to wait do");
  }

  /** A request comes, to be sent at once or to wait; returns its name. */
  offer(): RequestId {
    const offer = this.#anOffer();
    this.#heed(this.#pool.offer(offer, this.#now()));
    return offer.requestId;
  }

  /** A request that waits gives up. */
  withdraw(requestId: RequestId): void {
    this.#heed(this.#pool.withdraw(requestId, this.#now()));
  }

  /** The oldest request ends, and somebody who waits gets its slot. */
  end(): void {
    const leaseId = this.#leases.shift();
    assert(leaseId !== undefined, "somebody is there");
    const outcome = { kind: "completed", promptTokens: 300, outputTokens: 100 } as const;
    this.#heed(this.#pool.settle(leaseId, outcome, this.#now()));
  }

  /** A replica reports. */
  report(): void {
    this.#reports += 1;
    const index = this.#reports % this.#replicaCount;
    const runningRequests = this.#dispatched === 0 ? 0 : this.#runningRequests;
    const report: ReplicaReport = {
      kind: "report",
      sequence: this.#reports,
      queuedRequests: 0,
      runningRequests,
      usedBlocks: 400,
      blockTokens: BLOCK_TOKENS,
      blockCount: BLOCKS,
      queuedUncachedTokens: 0,
      queuedAttendedPairs: 0,
      runningKvTokens: runningRequests * 400,
      waitingKvTokens: 0,
      step: STEP,
      speedRatio: 1,
      prefillTimeRatio: 0.1,
      prefillTokensPerSecond: 20_000,
      stepMs: 5,
      tightestTbtMs: null,
      lastDispatch: { epoch: EPOCH, number: this.#dispatched },
      draining: false,
    };
    this.#heed(this.#pool.report(replicaIdOf(index), report, this.#now()));
  }

  /** All replicas report, so that none is taken for silent. */
  reportAll(): void {
    for (let index = 0; index < this.#replicaCount; index += 1) this.report();
  }

  /** The laws hold, or what was measured is not what it says. */
  checkInvariants(): void {
    this.#pool.checkInvariants();
  }

  #now(): number {
    this.#nowMs += CALL_MS;
    return this.#nowMs;
  }

  #heed(effects: readonly PoolEffect[]): void {
    for (const effect of effects) {
      if (effect.kind !== "dispatch") continue;
      this.#dispatched += 1;
      this.#leases.push(effect.leaseId);
      this.#pool.started(effect.leaseId, 20, this.#nowMs);
    }
  }

  #connect(index: number): void {
    this.#pool.connected(
      {
        kind: "hello",
        protocolVersion: 3,
        endpointUrl: urlOf(index),
        instanceId: `life-of-${index}`,
        modelId: MODEL,
        contextTokens: 32_768,
        blockTokens: BLOCK_TOKENS,
        blockCount: BLOCKS,
        sequencesMax: SLOTS,
        queueMax: 0,
        batchTokensMax: 8_192,
        keepsTbt: true,
      },
      0,
    );
  }

  #anOffer(): Offer {
    this.#offered += 1;
    return {
      requestId: RequestId.parse(`request-${this.#offered}`),
      tenantId: TenantId.parse(`tenant-${this.#offered % TENANTS}`),
      modelId: MODEL,
      share: { weight: 1, guaranteedRatio: GUARANTEED_RATIO, band: 0 },
      promptBytes: 1_000,
      targets: TARGETS,
      isStreamed: true,
      elapsedMs: 0,
      route: `route-${this.#offered % 100}`,
      chain: { keys: `prompt${this.#offered % 100}`.padEnd(8, "-"), blockRatio: 0.5 },
      excludedReplicaIds: [],
      isRetry: false,
    };
  }
}

function urlOf(index: number): string {
  return `http://127.0.0.1:${9_000 + index}`;
}

function replicaIdOf(index: number): ReplicaId {
  return ReplicaId.parse(urlOf(index));
}
