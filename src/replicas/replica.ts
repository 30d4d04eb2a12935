import { assert } from "../base/assert.ts";
import { hashText } from "../base/hash.ts";
import type { ReplicaHello, ReplicaReport } from "../protocol/engine-api.ts";
import type { EngineSignals } from "../protocol/engine-signals.ts";
import type { LeaseId, ReplicaId } from "../protocol/ids.ts";
import type { HealthOptions } from "./health.ts";
import { ReplicaHealth } from "./health.ts";
import type { LearnedDuration } from "./load-view.ts";
import { LoadView } from "./load-view.ts";
import { PrefixIndex } from "./prefix-index.ts";
import type { ReplicaCondition } from "./replica-condition.ts";
import { conditionOf, reportAgeMsOf } from "./replica-condition.ts";
import type { ReplicaLoad } from "./replica-load.ts";
import type {
  FitnessFacts,
  PlainServer,
  ReplicaOptions,
  ReplicaSettings,
  ReplicaState,
} from "./replica-state.ts";
import { newReplicaState, profileOf, slotsOf } from "./replica-state.ts";
import type { ResidentRequest, SentRequest } from "./residents.ts";
import { Residents } from "./residents.ts";
import { UpstreamQuota } from "./upstream-quota.ts";
import { ServedModels } from "./served-models.ts";

/** What we believe of one engine: its last report carried forward to the present, plus what we sent since. */
export class Replica {
  readonly state: ReplicaState;
  readonly health: ReplicaHealth;
  /** Which beginnings of prompts it has probably cached. */
  readonly prefixes: PrefixIndex;
  /** Of its id, for rendezvous order. */
  readonly hash: number;
  /** How much it takes, of a server that is not ours. */
  readonly quota: UpstreamQuota;
  readonly models: ServedModels;
  readonly #healthOptions: Partial<HealthOptions>;
  readonly #residents: Residents;
  readonly #loads: LoadView;

  constructor(
    settings: ReplicaSettings,
    options: ReplicaOptions = {},
    state: ReplicaState = newReplicaState(settings),
  ) {
    this.state = state;
    this.hash = hashText(settings.replicaId);
    this.#healthOptions = options.health ?? {};
    this.health = new ReplicaHealth({ ...options.health, ...settings.health }, state.health);
    this.prefixes = new PrefixIndex(options.prefixKeysMax, state.prefixes);
    this.quota = new UpstreamQuota(state.quota);
    this.models = new ServedModels(state, options.listedNames);
    this.#residents = new Residents(state.residents);
    this.#loads = new LoadView(state, this.#residents, options.countsLedger ?? true);
  }

  get replicaId(): ReplicaId {
    return this.state.settings.replicaId;
  }

  get endpointUrl(): string {
    return this.state.settings.endpointUrl;
  }

  /** Present for a server that is not ours, and which never reports. */
  get plain(): PlainServer | undefined {
    return this.state.settings.plain;
  }

  get isRemoved(): boolean {
    return this.state.isRemoved;
  }

  /** What it said of itself when it dialled in last. */
  get hello(): ReplicaHello | undefined {
    return this.state.hello;
  }

  /** Names the kind of replica this is: forecasts err alike on all that load and run the same. */
  get profile(): string {
    return profileOf(this.state);
  }

  /** Kept over a broken connection, not over a restart. */
  get lastReport(): ReplicaReport | undefined {
    return this.state.report;
  }

  /** Requests of ours that are there or on their way. */
  get outstanding(): number {
    return this.#residents.size;
  }

  /** Requests there that hold no lease of ours, of the pool's previous life or of others. They take slots all the same. */
  get strangers(): number {
    return this.state.strangers;
  }

  /** How many more requests may be sent. Zero until the replica has said what it can hold. */
  get freeSlots(): number {
    return Math.max(0, slotsOf(this.state) - this.outstanding - this.strangers);
  }

  conditionAt(nowMs: number): ReplicaCondition {
    return conditionOf(this.state, nowMs);
  }

  /** What decides, before any forecast, whether it can be sent a request. */
  factsAt(nowMs: number, replicaModelId?: string): FitnessFacts {
    return {
      replicaId: this.replicaId,
      hasModel: this.models.has(replicaModelId, nowMs),
      isReady: this.conditionAt(nowMs) === "ready",
      isEjected: !this.health.canTake(nowMs),
      freeSlots: this.quota.isHeldAt(nowMs) ? 0 : this.freeSlots,
    };
  }

  /** True while the replica is in use but has not (or not lately) been heard of. */
  isExpected(nowMs: number): boolean {
    const condition = this.conditionAt(nowMs);
    return condition === "disconnected" || condition === "silent";
  }

  /** `Infinity` before the first report. */
  reportAgeMs(nowMs: number): number {
    return reportAgeMsOf(this.state, nowMs);
  }

  /** What it has on its hands at an instant, once it has reported; costs the same however many are there. */
  loadAt(nowMs: number): ReplicaLoad {
    return this.#loads.at(nowMs);
  }

  /** Our requests there, in order of dispatch. */
  residents(): Iterable<ResidentRequest> {
    return this.#residents;
  }

  /** Follows the configuration. Another URL is another process, which has to say hello first. */
  configure(settings: ReplicaSettings): void {
    if ((settings.plain === undefined) !== (this.plain === undefined)) this.#forgetHello();
    const isMoved = settings.endpointUrl !== this.endpointUrl;
    if (isMoved) this.disconnect();
    this.state.settings = settings;
    this.state.isRemoved = false;
    this.models.follow({ isMoved });
    this.health.configure({ ...this.#healthOptions, ...settings.health });
    this.#loads.changed();
  }

  /** Takes the replica out of service; what runs there may finish. It would have to report anew. */
  remove(): void {
    this.state.isRemoved = true;
    this.models.count();
    this.prefixes.forget();
    this.#forgetReport();
    this.disconnect();
  }

  /**
   * Notes who has dialled in. It may be another process than before: whatever we sent to the old
   * one died with it, so its slots, the ledger, its last report and its cache are void. The same process is
   * what it was, so that a connection that breaks for a moment costs nothing.
   */
  connect(hello: ReplicaHello, nowMs: number): { readonly restarted: boolean } {
    const { state } = this;
    const restarted = state.hello !== undefined && state.hello.instanceId !== hello.instanceId;
    state.hello = hello;
    state.isConnected = true;
    state.sequence = 0;
    this.#loads.changed();
    if (restarted) {
      this.#forgetReport();
      state.strangers = 0;
      this.#residents.clear();
      this.#loads.forgetSpeed();
      this.prefixes.forget();
      this.health.restarted(nowMs);
    }
    return { restarted };
  }

  /** Nothing more is sent here; requests under way keep their slots, since their streams may live. */
  disconnect(): void {
    this.state.isConnected = false;
  }

  /**
   * Takes in a report. Returns false for one that is not newer than the last or that comes from a
   * connection which is gone: such a report changes nothing.
   */
  report(
    report: ReplicaReport,
    options: { readonly epoch: string; readonly nowMs: number },
  ): boolean {
    const { state } = this;
    if (!state.isConnected || report.sequence <= state.sequence) return false;
    state.sequence = report.sequence;
    state.report = report;
    state.reportAtMs = options.nowMs;
    state.releasedKvTokens = 0;
    this.#loads.reported(report, options.nowMs);
    const { lastDispatch } = report;
    if (lastDispatch?.epoch === options.epoch) this.#residents.acknowledge(lastDispatch.number);
    const unknown =
      report.queuedRequests + report.runningRequests - this.#residents.reported.requests;
    state.strangers = Math.max(0, unknown);
    state.missing = Math.max(0, -unknown);
    return true;
  }

  /**
   * Takes in what a server that is not ours says of itself; nothing, where it did not answer. What it has to
   * do beyond our own requests is somebody else's.
   */
  told(said: EngineSignals, nowMs: number): void {
    if (this.plain === undefined) return;
    const { models, answersAnyName, ...signals } = said;
    this.state.signals = { said: signals, atMs: nowMs };
    if (models !== undefined) this.models.told(models, nowMs, answersAnyName);
    const requests = (said.running ?? 0) + (said.queued ?? 0);
    this.state.strangers = Math.max(0, requests - this.outstanding);
    this.#loads.changed();
  }

  /** Takes in what a report tells of its cache; false where the replica has to tell all of it anew. */
  toldPrefixes({ cached }: ReplicaReport, nowMs: number): boolean {
    return cached === undefined || this.prefixes.told(cached, nowMs);
  }

  /** Takes a slot for a request, whose number is greater than all that went before in this epoch. */
  take(sent: SentRequest, nowMs: number): void {
    assert(this.freeSlots > 0, "a slot is taken only while one is free");
    this.health.dispatched(sent.dispatchNumber, nowMs);
    this.#residents.add(sent);
    this.#loads.sent(sent, nowMs);
  }

  /** The first token of a dispatch has come. Late news of one that has left changes nothing. */
  started(dispatchNumber: number, nowMs: number): void {
    this.state.answeredAtMs = nowMs;
    this.#residents.started(dispatchNumber, nowMs);
    this.#loads.changed();
  }

  /** Of a dispatch's prompt only so much is cached here, against what was expected. */
  recompute(dispatchNumber: number, cachedTokens: number): void {
    this.#residents.recompute(dispatchNumber, cachedTokens);
    this.#loads.changed();
  }

  /** Gives back the slot of a dispatch, whatever became of it. */
  release(dispatchNumber: number): void {
    const { state } = this;
    const wasReported = !this.#residents.isUnreported(dispatchNumber);
    const { promptTokens, expectedOutputTokens } = this.#residents.remove(dispatchNumber);
    this.health.released(dispatchNumber);
    this.#loads.changed();
    if (!wasReported) return;
    if (state.missing > 0) state.missing -= 1;
    else state.releasedKvTokens += promptTokens + expectedOutputTokens;
  }

  /** Learns how right a prediction was, or what the replica told of its steps. */
  learn(duration: LearnedDuration, nowMs: number): void {
    this.#loads.learn(duration, nowMs);
  }

  /** `isLive` knows which leases are alive; every resident holds one of them. */
  checkInvariants(isLive: (leaseId: LeaseId) => boolean = () => true): void {
    this.#residents.checkInvariants();
    this.health.checkInvariants();
    this.prefixes.checkInvariants();
    this.quota.checkInvariants();
    this.models.checkInvariants();
    const { strangers, missing, releasedKvTokens } = this.state;
    assert(strangers >= 0 && missing >= 0, "nobody holds a negative slot");
    assert(missing <= this.#residents.reported.requests, "only what was reported can be missing");
    assert(releasedKvTokens >= 0, "nobody gives back negative memory");
    for (const { leaseId } of this.#residents) {
      assert(isLive(leaseId), "a request leaves its replica with the end of its lease");
    }
  }

  #forgetHello(): void {
    delete this.state.hello;
    this.state.strangers = 0;
    this.#forgetReport();
    this.disconnect();
  }

  #forgetReport(): void {
    delete this.state.report;
    this.state.missing = 0;
    this.state.releasedKvTokens = 0;
    this.#loads.changed();
  }
}
