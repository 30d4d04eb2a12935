import { assert } from "../src/base/assert.ts";
import type { Random } from "../src/base/random.ts";
import type { ReplicaHello, ReplicaReport } from "../src/protocol/engine-api.ts";
import type { Batch } from "../gpu-backend/engine/batch.ts";
import { workOf } from "../gpu-backend/engine/batch-work.ts";
import { DispatchTracker, parseDispatchMark } from "../gpu-backend/engine/dispatch-tracker.ts";
import { Engine } from "../gpu-backend/engine/engine.ts";
import type { GenerateEvent } from "../gpu-backend/engine/generate-request.ts";
import { GREEDY_SAMPLING } from "../gpu-backend/engine/generate-request.ts";
import { PrefixFeed } from "../gpu-backend/engine/prefix-feed.ts";
import { toReportedState } from "../gpu-backend/engine/reported-load.ts";
import type { RowResult } from "../gpu-backend/engine/row-result.ts";
import type { Policy } from "../gpu-backend/engine/scheduling.ts";
import type { StepMeter } from "../gpu-backend/engine/step-meter.ts";
import { urgencyOf } from "../gpu-backend/engine/urgency.ts";
import { hashTokens } from "./hash-tokens.ts";
import type { HardwareProfile } from "./hardware-profile.ts";
import type { ReplicaEvent, ReplicaRequest } from "./replica-request.ts";
import { noisyStepTimeMs } from "./step-time.ts";
import { warmedUp } from "./warm-up.ts";
import type { World } from "./world.ts";

export interface SimulatedReplicaOptions {
  readonly world: World;
  readonly profile: HardwareProfile;
  readonly endpointUrl: string;
  readonly modelId: string;
  /** First come, first served unless given. */
  readonly policy?: Policy;
  readonly keepsTbt?: boolean;
  /** Called with what happened to requests, step by step. */
  readonly onEvents: (events: readonly ReplicaEvent[]) => void;
  /** Called when a report would say something new. */
  readonly onChange: () => void;
}

const COMPUTED: RowResult = { kind: "computed" };

/**
 * An engine process in virtual time: the real scheduler, KV cache and step meter, with a machine in
 * place of the executor that knows only how long a step takes.
 */
export class SimulatedReplica {
  readonly #options: SimulatedReplicaOptions;
  readonly #random: Random;
  #engine: Engine;
  #meter: StepMeter;
  /** What each request here will say. */
  readonly #answers = new Map<string, readonly number[]>();
  /** Counts lives and pauses, so that the end of a step that was not to be is not heard. */
  #life = 1;
  #isUp = true;
  #isFrozen = false;
  #isStepping = false;
  /** The end of a step that came while the process was frozen. */
  #heldStep: (() => void) | undefined;
  #isDraining = false;
  #slowdownRatio = 1;
  #dispatches = new DispatchTracker();
  #prefixFeed = new PrefixFeed();

  constructor(options: SimulatedReplicaOptions) {
    this.#options = options;
    this.#random = options.world.randomFor(`steps of ${options.endpointUrl}`);
    this.#meter = warmedUp(options.profile);
    this.#engine = this.#start();
  }

  get isUp(): boolean {
    return this.#isUp;
  }

  get isFrozen(): boolean {
    return this.#isFrozen;
  }

  /** Requests that wait or run here. */
  get requests(): number {
    return this.#answers.size;
  }

  /** Requests that wait and that run, as it counts them itself. */
  get load(): ReturnType<Engine["load"]> {
    return this.#engine.load();
  }

  get hello(): ReplicaHello {
    const { profile, endpointUrl, modelId, keepsTbt = false } = this.#options;
    return {
      kind: "hello",
      protocolVersion: 3,
      endpointUrl,
      instanceId: `life-${this.#life}`,
      modelId,
      contextTokens: profile.contextTokens,
      blockTokens: profile.blockTokens,
      blockCount: profile.blockCount,
      sequencesMax: profile.sequencesMax,
      queueMax: profile.queueMax,
      batchTokensMax: profile.batchTokensMax,
      keepsTbt,
    };
  }

  report(sequence: number): ReplicaReport {
    const { world } = this.#options;
    const changes = this.#engine.takePrefixChanges();
    if (changes !== undefined) this.#prefixFeed.apply(changes);
    const cached = this.#prefixFeed.next();
    return {
      kind: "report",
      sequence,
      ...(cached !== undefined && { cached }),
      ...toReportedState(this.#engine.load(), this.#meter.measurements, world.nowMs, {
        lastDispatch: this.#dispatches.last ?? null,
        draining: this.#isDraining,
      }),
    };
  }

  /** The pool, or another one, is to be told all that is cached. */
  tellPrefixesAnew(): void {
    this.#prefixFeed.restart();
    this.#options.onChange();
  }

  /** A request arrives. Returns false when no process is there to take it. */
  submit(request: ReplicaRequest): boolean {
    if (!this.#isUp) return false;
    if (request.dispatch !== undefined) this.#note(request.dispatch);
    this.#answers.set(request.id, request.answerTokenIds);
    const events = this.#engine.submit(
      {
        id: request.id,
        promptTokens: request.promptTokenIds,
        outputTokensMax: request.answerTokenIds.length,
        outputTokensMin: 0,
        sampling: GREEDY_SAMPLING,
        tenant: request.tenant,
        priority: 0,
        stopTokenIds: [],
        cacheSalt: "",
        ...(request.firstTokenDeadlineAtMs !== undefined && {
          firstTokenDeadlineAtMs: request.firstTokenDeadlineAtMs,
        }),
        ...(request.promptChain !== undefined && { promptChain: request.promptChain }),
        ...(request.tbtTargetMs !== undefined && { tbtTargetMs: request.tbtTargetMs }),
      },
      this.#options.world.nowMs,
    );
    this.#publish(events);
    if (!this.#isStepping && !this.#isFrozen) this.#step();
    return true;
  }

  /** A client is gone. Nothing happens if its request has ended already. */
  cancel(id: string): void {
    if (this.#isUp) this.#publish(this.#engine.cancel(id));
  }

  /** From now on everything takes `ratio` times as long as the profile says. */
  slowDown(ratio: number): void {
    this.#slowdownRatio = ratio;
  }

  /** Stops the process where it is; a step under way ends only after the thaw. */
  freeze(): void {
    this.#isFrozen = true;
  }

  thaw(): void {
    if (!this.#isFrozen) return;
    this.#isFrozen = false;
    const heldStep = this.#heldStep;
    this.#heldStep = undefined;
    if (heldStep !== undefined) heldStep();
    else if (this.#isUp && !this.#isStepping) this.#step();
    this.#options.onChange();
  }

  /** Takes nothing new until it is started anew. */
  drain(): void {
    this.#isDraining = true;
    this.#engine.drain();
    this.#options.onChange();
  }

  /** The process ends, with all that it holds. */
  die(): void {
    if (!this.#isUp) return;
    this.#isUp = false;
    this.#isStepping = false;
    this.#isFrozen = false;
    this.#heldStep = undefined;
    this.#life += 1;
    const lost = [...this.#answers.keys()].map((id): ReplicaEvent => ({ kind: "lost", id }));
    this.#answers.clear();
    this.#options.onEvents(lost);
  }

  /** Another process takes its place, with empty caches and nothing learned. */
  rise(): void {
    if (this.#isUp) return;
    this.#isUp = true;
    this.#isDraining = false;
    this.#dispatches = new DispatchTracker();
    this.#prefixFeed = new PrefixFeed();
    this.#meter = warmedUp(this.#options.profile);
    this.#engine = this.#start();
  }

  checkInvariants(): void {
    this.#engine.checkInvariants();
    const { queuedRequests, runningRequests } = this.#engine.load();
    assert(
      !this.#isUp || this.#answers.size === queuedRequests + runningRequests,
      "the requests of a replica are those of its engine",
    );
  }

  #start(): Engine {
    const { profile, policy = "fcfs", keepsTbt = false } = this.#options;
    const { blockCount, blockTokens, contextTokens, batchTokensMax, sequencesMax } = profile;
    const forecast = this.#meter.model;
    return new Engine({
      blockCount,
      blockTokens,
      contextTokens,
      batchTokensMax,
      sequencesMax,
      queueMax: profile.queueMax,
      prefixCache: true,
      modelRevision: profile.name,
      hashBlock: hashTokens,
      compareUrgency: urgencyOf(policy, { forecast, batchTokensMax }),
      forecast,
      keepsTbt,
    });
  }

  #note(dispatch: string): void {
    const mark = parseDispatchMark(dispatch);
    assert(mark !== undefined, "a pool marks its dispatches as engines read them");
    this.#dispatches.note(mark);
  }

  #step(): void {
    const { world, profile } = this.#options;
    const { batch, events } = this.#engine.plan(world.nowMs);
    this.#publish(events);
    this.#isStepping = batch !== undefined;
    if (batch === undefined) return;
    const stepMs = noisyStepTimeMs(profile, workOf(batch), this.#random) * this.#slowdownRatio;
    const life = this.#life;
    world.after(stepMs, () => this.#endStep(batch, stepMs, life));
  }

  #endStep(batch: Batch, stepMs: number, life: number): void {
    if (life !== this.#life) return;
    const { world } = this.#options;
    if (this.#isFrozen) {
      this.#heldStep = () => this.#endStep(batch, stepMs, life);
      return;
    }
    this.#meter.record(batch, stepMs, world.nowMs);
    const results = batch.rows.map((row): RowResult => {
      if (row.choice === undefined) return COMPUTED;
      const tokenId = this.#answers.get(row.sequenceId)?.[row.outputIndex];
      assert(tokenId !== undefined, "a row that chooses a token has one left to say");
      return { kind: "computed", chosen: [{ tokenId }] };
    });
    this.#publish(this.#engine.commit(batch, results));
    this.#step();
  }

  #publish(events: readonly GenerateEvent[]): void {
    if (events.length === 0) return;
    for (const { kind, id } of events) {
      if (kind === "finished" || kind === "refused" || kind === "failed") this.#answers.delete(id);
    }
    this.#options.onEvents(events);
    this.#options.onChange();
  }
}
