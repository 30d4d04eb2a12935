import type { OverloadLadder } from "../../../src/tenants/overload-step.ts";
import type { Random } from "../../../src/base/random.ts";
import { seededRandom } from "../../../src/base/random.ts";
import type { Offer, Outcome, PrefillOutcome } from "../../../src/pool/offer.ts";
import type { PoolCall } from "../../../src/pool/pool-call.ts";
import type { PoolEffect } from "../../../src/pool/pool-effect.ts";
import type { PoolLimits } from "../../../src/pool/pool-limits.ts";
import type { ReplicaHello, ReplicaRole } from "../../../src/protocol/engine-api.ts";
import type { CachedPrefixes } from "../../../src/protocol/engine-api.ts";
import type { LeaseId, RequestId } from "../../../src/protocol/ids.ts";
import { ModelId, TenantId } from "../../../src/protocol/ids.ts";
import type { SloTargets } from "../../../src/slo/targets.ts";
import type { LivePool } from "../../../src/tenants/live-configuration.ts";
import { aLivePool, anOffer, firstTokenWithin } from "../../support/pool-builders.ts";
import { aHello, aReport, EPOCH, replicaIdOf } from "../../support/replica-builders.ts";
import { chainOfText, keysOfText } from "../../support/prompt-chains.ts";

/** So tight that every bound is met within some hundred calls. */
export const TIGHT_LIMITS: Partial<PoolLimits> = {
  queueMax: 4,
  tenantQueueMax: 2,
  leasesMax: 9,
  tenantsMax: 3,
  leaseMs: 20_000,
};

const REPLICAS = 3;
const SMALL: Partial<ReplicaHello> = { sequencesMax: 2, queueMax: 1, batchTokensMax: 256 };
/** So little KV that requests wait for it. */
const BLOCKS = 64;

const LADDERS: readonly (OverloadLadder | undefined)[] = [
  undefined,
  [{ kind: "reject" }],
  [{ kind: "clamp", outputTokensMax: 8 }],
  [
    { kind: "queue", ratio: 0.3 },
    { kind: "clamp", outputTokensMax: 16 },
    { kind: "queue", ratio: 0.8 },
    { kind: "fallback", modelId: ModelId.parse("smaller") },
  ],
];
const TARGETS: readonly SloTargets[] = [
  {},
  firstTokenWithin(300),
  { ...firstTokenWithin(2_000), tpot: { percentileRatio: 0.99, limitMs: 60 }, tbtMaxMs: 400 },
  { e2e: { percentileRatio: 0.99, limitMs: 8_000 } },
];
const GUARANTEES = [0, 0.1, 0.3, 0.5, 0];

interface LiveLease {
  readonly offer: Offer;
  readonly replicaIndex: number;
  isStarted: boolean;
}

/**
 * What a pool is told by a world in which anything may happen at any moment, of one seed: plausible, in
 * that only leases that were given are settled, but in any order, and often at one and the same instant.
 */
export class RandomCalls {
  readonly #random: Random;
  readonly #change: Partial<LivePool>;
  readonly #waiting = new Map<RequestId, Offer>();
  readonly #leases = new Map<LeaseId, LiveLease>();
  readonly #roles: readonly ReplicaRole[];
  readonly #displaced: LeaseId[] = [];
  readonly #again: Offer[] = [];
  /** How it begins; from there on it is chance. */
  readonly #first: PoolCall[];
  readonly #sequences = Array.from({ length: REPLICAS }, () => 0);
  readonly #lives = Array.from({ length: REPLICAS }, () => 1);
  #configured = REPLICAS;
  #lastNumber = 0;
  #offered = 0;
  #wakeAtMs: number | undefined;
  nowMs = 0;

  /** `change` is made to every configuration; a pool of servers that are not ours hears of none of them. */
  constructor(seed: number, change: Partial<LivePool> = {}, roles: readonly ReplicaRole[] = []) {
    this.#random = seededRandom(seed);
    this.#change = change;
    this.#roles = roles;
    this.#first = [
      { kind: "configure", pool: { ...aLivePool(REPLICAS), ...change } },
      ...this.#indices().map((index) => this.#connect(index)),
      ...this.#indices().map((index) => this.#report(index)),
    ];
    if (change.engine === "openai") this.#first.splice(1);
  }

  /** Lets time pass, or not, and makes the next call; hand its effects to `heed`. */
  next(): PoolCall {
    const first = this.#first.shift();
    if (first !== undefined) return first;
    this.nowMs += this.#elapsedMs();
    if (this.#wakeAtMs !== undefined && this.#wakeAtMs <= this.nowMs) {
      this.#wakeAtMs = undefined;
      return { kind: "wake" };
    }
    const displaced = this.#displaced.shift();
    if (displaced !== undefined) return this.#settle(displaced, { kind: "displaced" });
    const again = this.#again.shift();
    if (again !== undefined) return this.#offer({ ...again, isRetry: true });
    return this.#anyCall();
  }

  /** Follows what the pool wants done. */
  heed(effects: readonly PoolEffect[]): void {
    for (const effect of effects) {
      if (effect.kind === "ask-prefixes") continue;
      if (effect.kind === "wake") this.#wakeAtMs = effect.atMs;
      else if (effect.kind === "reject") this.#waiting.delete(effect.requestId);
      else if (effect.kind === "displace") this.#displaced.push(effect.leaseId);
      else {
        const offer =
          effect.kind === "hedge"
            ? this.#leaseOfRequest(effect.requestId)?.offer
            : this.#waiting.get(effect.requestId);
        if (offer === undefined) throw new Error("Who neither waits nor runs is sent nowhere");
        this.#waiting.delete(effect.requestId);
        this.#lastNumber += effect.dispatch.prefillAt === undefined ? 1 : 2;
        const { replicaId } = effect.dispatch;
        const replicaIndex = this.#indices().find((index) => replicaIdOf(index) === replicaId) ?? 0;
        this.#leases.set(effect.leaseId, { offer, replicaIndex, isStarted: false });
      }
    }
  }

  /** The call that ends one request, until there is none left. */
  nextEnding(): PoolCall | undefined {
    this.nowMs += 1;
    for (const requestId of this.#waiting.keys()) return { kind: "withdraw", requestId };
    for (const leaseId of this.#leases.keys()) {
      return this.#settle(leaseId, { kind: "client-gone" });
    }
    return undefined;
  }

  #anyCall(): PoolCall {
    const draw = this.#random();
    if (draw < 0.36) return this.#offer(this.#newOffer());
    if (this.#roles.length > 0 && draw < 0.42) return this.#prefilled() ?? { kind: "wake" };
    if (draw < 0.62) return this.#report(this.#below(REPLICAS));
    if (draw < 0.72) return this.#start() ?? { kind: "wake" };
    if (draw < 0.92) return this.#end() ?? { kind: "wake" };
    if (draw < 0.93) return this.#withdraw() ?? { kind: "wake" };
    const isPlain = this.#change.engine === "openai";
    if (draw < 0.93 && isPlain) return this.#limit() ?? { kind: "wake" };
    if (draw < 0.94) return this.#stall() ?? { kind: "wake" };
    if (draw < 0.955) return this.#hedge() ?? { kind: "wake" };
    if (draw < 0.96) return { kind: "wake" };
    if (draw < 0.965) return this.#configure();
    if (draw < 0.967) return { kind: "close", isClosed: draw < 0.966 };
    if (draw < 0.968) return this.#drain();
    if (draw < 0.97) return { kind: "disconnected", replicaId: replicaIdOf(this.#below(REPLICAS)) };
    const call = this.#connect(this.#below(this.#configured));
    return this.#change.engine === "openai" ? this.#told() : call;
  }

  #drain(): PoolCall {
    const replicaId = replicaIdOf(this.#below(REPLICAS));
    return { kind: "drain", replicaId, isDrained: this.#random() < 0.5 };
  }

  #configure(): PoolCall {
    this.#configured = REPLICAS - this.#below(2);
    return { kind: "configure", pool: { ...aLivePool(this.#configured), ...this.#change } };
  }

  /** What a server that is not ours might say, whether or not it is true. */
  #told(): PoolCall {
    const said =
      this.#below(4) === 0
        ? {}
        : { isReady: this.#below(5) > 0, running: this.#below(9), queued: this.#below(4) };
    return { kind: "told", replicaId: replicaIdOf(this.#below(REPLICAS)), said };
  }

  #offer(offer: Offer): PoolCall {
    this.#waiting.set(offer.requestId, offer);
    return { kind: "offer", offer };
  }

  #newOffer(): Offer {
    this.#offered += 1;
    const tenant = this.#below(GUARANTEES.length);
    const overload = LADDERS[this.#below(LADDERS.length)];
    const promptBytes = this.#below(4) === 0 ? this.#below(6_000) : this.#below(600);
    const route = `${this.#below(3)}`.repeat(4);
    return anOffer(`request-${this.#offered}`, {
      tenantId: TenantId.parse(`tenant-${tenant}`),
      share: {
        weight: tenant + 1,
        guaranteedRatio: GUARANTEES[tenant] ?? 0,
        band: this.#below(3),
      },
      promptBytes,
      ...(this.#random() < 0.5 && { route, chain: chainOfText(route) }),
      targets: TARGETS[this.#below(TARGETS.length)] ?? {},
      isStreamed: this.#random() < 0.8,
      elapsedMs: this.#below(40),
      excludedReplicaIds: this.#random() < 0.1 ? [replicaIdOf(this.#below(REPLICAS))] : [],
      ...(this.#random() < 0.8 && { outputTokensMax: 1 + this.#below(60) }),
      ...(overload !== undefined && { overload }),
    });
  }

  #report(index: number): PoolCall {
    const here = [...this.#leases.values()].filter(({ replicaIndex }) => replicaIndex === index);
    const runningRequests = Math.max(0, here.length - this.#below(2));
    const sequence = (this.#sequences[index] ?? 0) + 1;
    this.#sequences[index] = sequence;
    const report = aReport(sequence, {
      blockCount: BLOCKS,
      runningRequests,
      queuedRequests: this.#below(2),
      queuedUncachedTokens: this.#below(3) * 60,
      runningKvTokens: runningRequests * 150,
      usedBlocks: Math.min(BLOCKS, runningRequests * 10),
      speedRatio: 0.5 + this.#random(),
      prefillTimeRatio: this.#random() / 2,
      lastDispatch: this.#random() < 0.7 ? { epoch: EPOCH, number: this.#lastNumber } : null,
      draining: this.#random() < 0.02,
      ...(this.#random() < 0.3 && { cached: this.#cached() }),
    });
    return { kind: "report", replicaId: replicaIdOf(index), report };
  }

  /** Parts get lost, so that what was told before is void now and then. */
  #cached(): CachedPrefixes {
    const keysOf = () => keysOfText(`${this.#below(3)}`.repeat(this.#below(4))).join("");
    const isWhole = this.#random() < 0.2;
    return { sequence: 1 + this.#below(3), isWhole, stored: keysOf(), removed: keysOf() };
  }

  #connect(index: number): PoolCall {
    if (this.#random() < 0.3) this.#lives[index] = (this.#lives[index] ?? 0) + 1;
    this.#sequences[index] = 0;
    const instanceId = `life-${this.#lives[index]}-of-${index}`;
    const role = this.#roles[index];
    const hello = aHello(index, { ...SMALL, instanceId, ...(role !== undefined && { role }) });
    return { kind: "connected", hello };
  }

  #start(): PoolCall | undefined {
    const leaseId = this.#oneOf([...this.#leases.keys()]);
    const lease = leaseId === undefined ? undefined : this.#leases.get(leaseId);
    if (leaseId === undefined || lease === undefined || lease.isStarted) return undefined;
    lease.isStarted = true;
    return { kind: "started", leaseId, firstTokenAfterMs: 20 + this.#below(300) };
  }

  #prefilled(): PoolCall | undefined {
    const leaseId = this.#oneOf([...this.#leases.keys()]);
    const outcomes: readonly PrefillOutcome[] = [
      { kind: "done", cachedTokens: this.#below(200) },
      { kind: "failed" },
      { kind: "refused" },
      { kind: "abandoned" },
    ];
    const outcome = this.#oneOf(outcomes);
    if (leaseId === undefined || outcome === undefined) return undefined;
    return { kind: "prefilled", leaseId, outcome };
  }

  #stall(): PoolCall | undefined {
    const leaseId = this.#oneOf([...this.#leases.keys()]);
    return leaseId === undefined ? undefined : { kind: "stalled", leaseId };
  }

  #limit(): PoolCall | undefined {
    const leaseId = this.#oneOf([...this.#leases.keys()]);
    const said = { isRefused: this.#random() < 0.5, holdOffMs: this.#below(3) * 100 };
    return leaseId === undefined ? undefined : { kind: "limited", leaseId, said };
  }

  #hedge(): PoolCall | undefined {
    const leaseId = this.#oneOf([...this.#leases.keys()]);
    const lease = leaseId === undefined ? undefined : this.#leases.get(leaseId);
    if (leaseId === undefined || lease === undefined) return undefined;
    return { kind: "hedge", leaseId, offer: { ...lease.offer, isRetry: true } };
  }

  #leaseOfRequest(requestId: RequestId): LiveLease | undefined {
    return [...this.#leases.values()].find(({ offer }) => offer.requestId === requestId);
  }

  #end(): PoolCall | undefined {
    const leaseId = this.#oneOf([...this.#leases.keys()]);
    if (leaseId === undefined) return undefined;
    const outputTokens = 1 + this.#below(200);
    const outcomes: readonly Outcome[] = [
      { kind: "completed", promptTokens: 40 + this.#below(400), outputTokens, decodeMs: 900 },
      { kind: "completed" },
      { kind: "client-gone", outputTokens },
      { kind: "upstream-failed" },
    ];
    const outcome = outcomes[Math.min(this.#below(6), outcomes.length - 1)] ?? {
      kind: "abandoned",
    };
    return this.#settle(leaseId, this.#random() < 0.7 ? (outcomes[0] ?? outcome) : outcome);
  }

  #settle(leaseId: LeaseId, outcome: Outcome): PoolCall {
    const lease = this.#leases.get(leaseId);
    this.#leases.delete(leaseId);
    const isTriedAgain = outcome.kind === "displaced" || outcome.kind === "upstream-failed";
    const isAlone = lease !== undefined && !this.#leaseOfRequest(lease.offer.requestId);
    if (!isAlone || !isTriedAgain) return { kind: "settle", leaseId, outcome };
    // What had begun goes on behind what there is of it, be it for the second time.
    const isInterrupted = outcome.kind === "upstream-failed" && lease.isStarted;
    if (!isInterrupted) {
      this.#again.push(lease.offer);
      return { kind: "settle", leaseId, outcome };
    }
    const { emittedTokens = 0 } = lease.offer.continued ?? {};
    const part = { promptTokens: 90, outputTokens: 7 };
    const resumeByMs = lease.offer.elapsedMs + 500;
    const continued = {
      promptTokens: part.promptTokens,
      emittedTokens: emittedTokens + part.outputTokens,
      resumeByMs,
    };
    this.#again.push({ ...lease.offer, continued });
    return { kind: "settle", leaseId, outcome: { ...outcome, ...part, isInterrupted } };
  }

  #withdraw(): PoolCall | undefined {
    const requestId = this.#oneOf([...this.#waiting.keys()]);
    return requestId === undefined ? undefined : { kind: "withdraw", requestId };
  }

  /** Often none at all: events of one instant are where what is remembered can go stale. */
  #elapsedMs(): number {
    const draw = this.#random();
    if (draw < 0.4) return 0;
    return draw < 0.98 ? this.#below(60) : this.#below(4_000);
  }

  #indices(): number[] {
    return [...this.#sequences.keys()];
  }

  #below(count: number): number {
    return Math.floor(this.#random() * count);
  }

  #oneOf<Value>(values: readonly Value[]): Value | undefined {
    return values[this.#below(values.length)];
  }
}
