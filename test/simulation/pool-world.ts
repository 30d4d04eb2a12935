import { assert } from "../../src/base/assert.ts";
import type { Random } from "../../src/base/random.ts";
import { seededRandom } from "../../src/base/random.ts";
import type { Dispatch, Offer, Outcome, Rejection } from "../../src/pool/offer.ts";
import type { PoolEffect } from "../../src/pool/pool-effect.ts";
import { Pool } from "../../src/pool/pool.ts";
import type { ReplicaReport } from "../../src/protocol/engine-api.ts";
import type { LeaseId, ReplicaId, RequestId } from "../../src/protocol/ids.ts";
import { REPORT_AGE_MS_MAX } from "../../src/replicas/replica.ts";
import type { LivePool } from "../../src/tenants/live-configuration.ts";
import { aLivePool, anOffer, replicaIdOf } from "../support/pool-builders.ts";
import { EventQueue } from "./event-queue.ts";
import { SimulatedEngine } from "./simulated-engine.ts";

const REQUEST_COUNT = 120;
const ARRIVALS_MS = 20_000;
const FAULTS_MS = 30_000;
/** After the last fault the world must be idle within a lease and the longest budget. */
const END_AT_MS = 90_000;
const LEASE_MS = 25_000;
const ATTEMPTS_MAX = 3;
/** Enough for any prompt of this world on its slowest engine, when nothing is ahead of it. */
const AMPLE_BUDGET_MS = 5_000;

/** A request on its way through the world. */
interface TrackedRequest {
  readonly offer: Offer;
  readonly deadlineAtMs: number;
  readonly promptTokens: number;
  readonly attempt: number;
  state: "waiting" | "dispatched" | "ended";
}

/** What the world knows that the pool was told of a replica. */
interface Link {
  readonly engine: SimulatedEngine;
  isConfigured: boolean;
  isConnected: boolean;
  /** Its reports get lost while its connection seems to be well. */
  isMute: boolean;
  /** Counts connections, so that what was sent on an old one is not heard on the next. */
  generation: number;
  sequence: number;
  instanceId: string | undefined;
  heard: { readonly report: ReplicaReport; readonly atMs: number } | undefined;
  /** Of the last report heard on the present connection. */
  heardSequence: number;
  /** Leases of this life of the pool, with the instant at which they expire. */
  readonly leases: Map<LeaseId, number>;
}

/** How likely each misfortune is; drawn from the seed, so that some worlds are calm. */
interface Faults {
  readonly reportLost: number;
  readonly reportLate: number;
  readonly reportTwice: number;
  readonly settlementLost: number;
  readonly settlementTwice: number;
  readonly clientGone: number;
  readonly withdrawn: number;
}

/**
 * A pool among simulated engines and clients in virtual time, all of one seed. Everything that can
 * go wrong between them does: reports get lost, late, or come twice; connections break; engines
 * restart or drain; the configuration changes; the pool's own object dies; clients leave.
 *
 * After every event the pool's invariants are checked, and what it decided is held against what
 * it had been told.
 */
class PoolWorld {
  readonly history: string[] = [];
  readonly #random: Random;
  readonly #events = new EventQueue();
  readonly #faults: Faults;
  readonly #links = new Map<ReplicaId, Link>();
  readonly #requests = new Map<RequestId, TrackedRequest>();
  readonly #waiting = new Set<TrackedRequest>();
  readonly #queueMax: number;
  #pool: Pool;
  #life = 0;
  #wakeNumber = 0;

  constructor(seed: number) {
    this.#random = seededRandom(seed);
    this.#queueMax = this.#upTo(30);
    this.#faults = {
      reportLost: this.#upTo(0.3),
      reportLate: this.#upTo(0.3),
      reportTwice: this.#upTo(0.2),
      settlementLost: this.#upTo(0.05),
      settlementTwice: this.#upTo(0.2),
      clientGone: this.#upTo(0.2),
      withdrawn: this.#upTo(0.2),
    };
    this.#pool = this.#bearPool();
    const engineCount = 1 + this.#upTo(4);
    for (let index = 0; index < engineCount; index += 1) this.#addEngine(index);
    this.#configure();
    for (let index = 0; index < REQUEST_COUNT; index += 1) {
      const arrival = () => this.#arrive(index);
      this.#events.after(this.#upTo(ARRIVALS_MS), arrival);
    }
    const faultCount = this.#upTo(40);
    for (let count = 0; count < faultCount; count += 1) {
      this.#events.after(this.#upTo(FAULTS_MS), () => this.#misfortune());
    }
  }

  /** Lets the world run to its end. Throws at the first event after which a law is broken. */
  runToEnd(): void {
    while (this.#events.nowMs < END_AT_MS && this.#events.step()) {
      this.#pool.checkInvariants();
      this.#checkNobodyWaitsInVain();
      if ((this.#events.nextAtMs ?? Infinity) > this.#events.nowMs) this.#checkDeadlines();
    }
    const { queued, leases } = this.#pool.status(this.#events.nowMs);
    assert(queued === 0 && leases === 0, "the world becomes idle after the last fault");
    for (const { state } of this.#requests.values()) {
      assert(state === "ended", "every request has ended");
    }
  }

  #upTo(limit: number): number {
    return limit < 1 ? this.#random() * limit : Math.floor(this.#random() * limit);
  }

  #happens(probability: number): boolean {
    return this.#random() < probability;
  }

  #note(...words: readonly (string | number)[]): void {
    this.history.push([this.#events.nowMs, ...words].join(" "));
  }

  // The pool's object.

  #bearPool(): Pool {
    this.#life += 1;
    return new Pool({
      epoch: `life-${this.#life}`,
      startedAtMs: this.#events.nowMs,
      random: this.#random,
      limits: { leaseMs: LEASE_MS },
    });
  }

  #configuration(): LivePool {
    const whole = aLivePool(this.#links.size, { queueMax: this.#queueMax });
    const isConfigured = (replicaId: ReplicaId) => this.#links.get(replicaId)?.isConfigured;
    return { ...whole, replicas: whole.replicas.filter((each) => isConfigured(each.replicaId)) };
  }

  #configure(): void {
    this.#perform(this.#pool.configure(this.#configuration(), this.#events.nowMs));
    for (const link of this.#links.values()) {
      if (link.isConnected && !link.isConfigured) this.#disconnect(link);
    }
  }

  /** The object is gone and all who waited there with it; another one takes up the connections. */
  #restartPool(): void {
    this.#note("pool restarts");
    for (const request of this.#waiting) request.state = "ended";
    this.#waiting.clear();
    this.#wakeNumber += 1;
    this.#pool = this.#bearPool();
    for (const link of this.#links.values()) {
      link.leases.clear();
      link.heard = undefined;
      link.instanceId = undefined;
    }
    this.#configure();
    for (const link of this.#links.values()) {
      if (link.isConnected) this.#greet(link);
    }
  }

  #perform(effects: readonly PoolEffect[]): void {
    for (const effect of effects) {
      switch (effect.kind) {
        case "dispatch":
          this.#dispatched(effect.requestId, effect.leaseId, effect.dispatch);
          break;
        case "reject":
          this.#rejected(effect.requestId, effect.rejection);
          break;
        case "wake":
          this.#wakeAt(effect.atMs);
          break;
      }
    }
  }

  #wakeAt(atMs: number): void {
    this.#wakeNumber += 1;
    const number = this.#wakeNumber;
    assert(atMs > this.#events.nowMs, "a wake lies in the future");
    this.#events.after(atMs - this.#events.nowMs, () => {
      if (number === this.#wakeNumber) this.#perform(this.#pool.wake(this.#events.nowMs));
    });
  }

  // Engines and their connections.

  #addEngine(index: number): void {
    const replicaId = replicaIdOf(index);
    const engine = new SimulatedEngine({ replicaId, events: this.#events, random: this.#random });
    const link: Link = {
      engine,
      isConfigured: true,
      isConnected: false,
      isMute: false,
      generation: 0,
      sequence: 0,
      instanceId: undefined,
      heard: undefined,
      heardSequence: 0,
      leases: new Map(),
    };
    this.#links.set(replicaId, link);
    this.#events.after(this.#upTo(3000), () => this.#connect(link));
  }

  #connect(link: Link): void {
    if (link.isConnected || !link.engine.isUp || !link.isConfigured) return;
    link.isConnected = true;
    link.generation += 1;
    link.sequence = 0;
    this.#greet(link);
    this.#sendReports(link, link.generation);
  }

  #greet(link: Link): void {
    const { hello } = link.engine;
    link.heardSequence = 0;
    if (link.instanceId !== undefined && link.instanceId !== hello.instanceId) {
      link.leases.clear();
      link.heard = undefined;
    }
    link.instanceId = hello.instanceId;
    this.#perform(this.#pool.connected(hello, this.#events.nowMs));
  }

  #disconnect(link: Link): void {
    if (!link.isConnected) return;
    link.isConnected = false;
    link.generation += 1;
    this.#perform(this.#pool.disconnected(link.engine.replicaId, this.#events.nowMs));
  }

  /** Sends reports for as long as the connection lives; some never arrive, some late or twice. */
  #sendReports(link: Link, generation: number): void {
    if (generation !== link.generation || this.#events.nowMs > END_AT_MS) return;
    link.sequence += 1;
    const report = link.engine.report(link.sequence);
    const delayMs = this.#happens(this.#faults.reportLate) ? this.#upTo(4000) : this.#upTo(20);
    if (!link.isMute && !this.#happens(this.#faults.reportLost)) {
      this.#events.after(delayMs, () => this.#hear(link, generation, report));
    }
    if (this.#happens(this.#faults.reportTwice)) {
      this.#events.after(delayMs + this.#upTo(500), () => this.#hear(link, generation, report));
    }
    this.#events.after(100 + this.#upTo(400), () => this.#sendReports(link, generation));
  }

  #hear(link: Link, generation: number, report: ReplicaReport): void {
    if (generation !== link.generation) return;
    const nowMs = this.#events.nowMs;
    if (report.sequence > link.heardSequence) {
      link.heardSequence = report.sequence;
      link.heard = { report, atMs: nowMs };
    }
    this.#perform(this.#pool.report(link.engine.replicaId, report, nowMs));
  }

  #misfortune(): void {
    const links = [...this.#links.values()];
    const link = links[this.#upTo(links.length)];
    assert(link !== undefined, "a world has engines");
    const backAfterMs = 200 + this.#upTo(4000);
    const { engine } = link;
    const kinds = ["break", "mute", "restart", "drain", "remove", "restart pool"] as const;
    const kind = kinds[this.#upTo(kinds.length)];
    this.#note("misfortune", kind ?? "none", engine.replicaId);
    switch (kind) {
      case "break":
        this.#disconnect(link);
        break;
      case "mute":
        link.isMute = true;
        this.#events.after(backAfterMs, () => (link.isMute = false));
        break;
      case "restart":
        engine.die();
        this.#disconnect(link);
        this.#events.after(backAfterMs / 2, () => engine.rise());
        break;
      case "drain":
        engine.isDraining = true;
        this.#events.after(backAfterMs / 2, () => (engine.isDraining = false));
        break;
      case "remove":
        link.isConfigured = false;
        link.heard = undefined;
        this.#configure();
        this.#events.after(backAfterMs / 2, () => {
          link.isConfigured = true;
          this.#configure();
        });
        break;
      case "restart pool":
        this.#restartPool();
        break;
      case undefined:
        break;
    }
    this.#events.after(backAfterMs, () => this.#connect(link));
  }

  // Clients and their requests.

  #arrive(index: number): void {
    const promptTokens = 10 + this.#upTo(500);
    const firstTokenTargetMs = 100 + this.#upTo(10_000);
    const offer = anOffer(`request-${index}`, {
      promptBytes: Math.floor(promptTokens * (2 + this.#random() * 4)),
      firstTokenTargetMs,
      firstTokenBudgetMs: firstTokenTargetMs,
    });
    this.#offer({ offer, promptTokens, attempt: 1 });
    if (!this.#happens(this.#faults.withdrawn)) return;
    this.#events.after(this.#upTo(offer.firstTokenBudgetMs), () => {
      this.#perform(this.#pool.withdraw(offer.requestId, this.#events.nowMs));
    });
  }

  #offer(asked: Pick<TrackedRequest, "offer" | "promptTokens" | "attempt">): void {
    const nowMs = this.#events.nowMs;
    const deadlineAtMs = nowMs + asked.offer.firstTokenBudgetMs;
    const request: TrackedRequest = { ...asked, deadlineAtMs, state: "waiting" };
    this.#requests.set(asked.offer.requestId, request);
    this.#waiting.add(request);
    this.#perform(this.#pool.offer(asked.offer, nowMs));
  }

  #dispatched(requestId: RequestId, leaseId: LeaseId, dispatch: Dispatch): void {
    const request = this.#take(requestId, "dispatched");
    const link = this.#links.get(dispatch.replicaId);
    assert(link !== undefined, "a request is sent to a replica that exists");
    this.#note("dispatch", requestId, leaseId, dispatch.replicaId, dispatch.queuedMs);
    this.#checkDispatch(request, link, dispatch);
    link.leases.set(leaseId, this.#events.nowMs + LEASE_MS);

    let hasEnded = false;
    const end = (outcome: Outcome): void => {
      if (hasEnded) return;
      hasEnded = true;
      this.#events.after(this.#upTo(50), () => this.#settle(link, leaseId, outcome));
      this.#ended(request, dispatch.replicaId, outcome);
    };
    this.#events.after(1 + this.#upTo(20), () => {
      const cancel = link.engine.serve({
        promptTokens: request.promptTokens,
        decodeMs: this.#upTo(3000),
        dispatch: dispatch.dispatch,
        onEnd: (how) => end(toOutcome(how, request.promptTokens)),
      });
      if (!this.#happens(this.#faults.clientGone)) return;
      this.#events.after(this.#upTo(3000), () => {
        cancel();
        end({ kind: "client-gone" });
      });
    });
  }

  #settle(link: Link, leaseId: LeaseId, outcome: Outcome): void {
    if (this.#happens(this.#faults.settlementLost)) return;
    link.leases.delete(leaseId);
    this.#perform(this.#pool.settle(leaseId, outcome, this.#events.nowMs));
    if (!this.#happens(this.#faults.settlementTwice)) return;
    const again = { kind: "abandoned" } as const;
    this.#perform(this.#pool.settle(leaseId, again, this.#events.nowMs));
  }

  /** A request whose replica failed it asks again, with what is left of its budget. */
  #ended(request: TrackedRequest, replicaId: ReplicaId, outcome: Outcome): void {
    const { offer, promptTokens, attempt, deadlineAtMs } = request;
    request.state = "ended";
    const hasFailed = outcome.kind === "upstream-failed" || outcome.kind === "upstream-refused";
    if (!hasFailed || attempt >= ATTEMPTS_MAX) return;
    const excludedReplicaIds = [...offer.excludedReplicaIds, replicaId];
    const firstTokenBudgetMs = deadlineAtMs - this.#events.nowMs;
    const again = { ...offer, excludedReplicaIds, firstTokenBudgetMs };
    this.#offer({ offer: again, promptTokens, attempt: attempt + 1 });
  }

  #rejected(requestId: RequestId, rejection: Rejection): void {
    const request = this.#take(requestId, "ended");
    this.#note("reject", requestId, rejection.reason);
    const leftMs = request.deadlineAtMs - this.#events.nowMs;
    const { reason, predictedWaitMs, retryAfterMs = 0 } = rejection;
    const isFinal = reason === "unattainable";
    assert(isFinal || retryAfterMs >= 1000, "a refusal that is not final says when to try again");
    if (isFinal || reason === "infeasible" || reason === "deadline-passed") {
      const isAttainable = this.#isAttainable(request.offer, rejection);
      assert(isFinal !== isAttainable, "only what no replica could do in time is refused for good");
    }
    if (reason === "infeasible" || reason === "deadline-passed") {
      assert(leftMs <= 0 || (predictedWaitMs ?? 0) > leftMs, "only the hopeless are refused");
    }
    if (reason === "no-replica") {
      const isEligible = (link: Link) => this.#isEligible(link, request);
      const eligible = [...this.#links.values()].filter(isEligible);
      assert(eligible.length === 0, "nobody is refused for want of a replica that is there");
    }
  }

  /** Whether a replica might answer in time if it were idle, for all that is known of it. */
  #isAttainable(offer: Offer, { promptTokens = 0 }: Rejection): boolean {
    const configured = [...this.#links.values()].filter((link) => link.isConfigured);
    return configured.some(({ heard }) => {
      if (heard === undefined) return true;
      const { prefillTokensPerSecond, stepMs } = heard.report;
      const idleMs = (promptTokens / prefillTokensPerSecond) * 1000 + stepMs;
      return idleMs <= offer.firstTokenTargetMs;
    });
  }

  #take(requestId: RequestId, next: "dispatched" | "ended"): TrackedRequest {
    const request = this.#requests.get(requestId);
    assert(request?.state === "waiting", "every offer gets one verdict");
    request.state = next;
    this.#waiting.delete(request);
    return request;
  }

  // What must hold.

  #isEligible(link: Link, { offer }: TrackedRequest): boolean {
    return (
      link.isConfigured &&
      link.isConnected &&
      link.heard !== undefined &&
      this.#events.nowMs - link.heard.atMs <= REPORT_AGE_MS_MAX &&
      !link.heard.report.draining &&
      !offer.excludedReplicaIds.includes(link.engine.replicaId)
    );
  }

  #leasesAlive(link: Link): number {
    const nowMs = this.#events.nowMs;
    return [...link.leases.values()].filter((expiresAtMs) => expiresAtMs > nowMs).length;
  }

  #checkDispatch(request: TrackedRequest, link: Link, dispatch: Dispatch): void {
    assert(this.#isEligible(link, request), "a request is sent only where it may go");
    const slots = link.engine.sequencesMax + link.engine.queueMax;
    assert(this.#leasesAlive(link) < slots, "a request is sent only where a slot is free");
    const leftMs = request.deadlineAtMs - this.#events.nowMs;
    assert(leftMs > 0, "nobody is dispatched past the deadline");
    assert(dispatch.firstTokenBudgetMs === leftMs, "a dispatch says what is left of the budget");
  }

  #checkDeadlines(): void {
    for (const { deadlineAtMs } of this.#waiting) {
      assert(deadlineAtMs > this.#events.nowMs, "nobody waits past a deadline without a verdict");
    }
  }

  /** A replica that is known to be idle makes whoever has ample time a dispatched request. */
  #checkNobodyWaitsInVain(): void {
    if (this.#waiting.size === 0) return;
    const idle = [...this.#links.values()].filter(
      (link) =>
        this.#leasesAlive(link) === 0 &&
        link.heard?.report.runningRequests === 0 &&
        link.heard.report.queuedRequests === 0,
    );
    if (idle.length === 0) return;
    for (const request of this.#waiting) {
      if (request.deadlineAtMs - this.#events.nowMs < AMPLE_BUDGET_MS) continue;
      const isFree = idle.some((link) => this.#isEligible(link, request));
      assert(!isFree, "nobody waits while a replica that would do is idle");
    }
  }
}

const OUTCOMES = {
  completed: "completed",
  failed: "upstream-failed",
  refused: "upstream-refused",
} as const;

function toOutcome(how: keyof typeof OUTCOMES, promptTokens: number): Outcome {
  return { kind: OUTCOMES[how], ...(how === "completed" && { promptTokens }) };
}

/** Runs the world of one seed and returns what happened in it. Names the seed when it throws. */
export function runWorld(seed: number): readonly string[] {
  const world = new PoolWorld(seed);
  try {
    world.runToEnd();
  } catch (error) {
    const last = world.history.slice(-8).join("\n  ");
    throw new Error(`seed ${seed}: ${String(error)}\n  ${last}`, { cause: error });
  }
  return world.history;
}
