import { paceMs } from "../src/slo/deadlines.ts";
import { assert } from "../src/base/assert.ts";
import type { Offer, Outcome, Rejection } from "../src/pool/offer.ts";
import type { LeaseId, ReplicaId } from "../src/protocol/ids.ts";
import { RequestId } from "../src/protocol/ids.ts";
import type { RequestEnding } from "../src/slo/timeline.ts";
import type { Dispatcher, VerdictListener } from "./dispatcher.ts";
import { prefixesOf, promptBytesOf } from "./prompt-shape.ts";
import type { ReplicaLink } from "./replica-link.ts";
import type { RequestRecord } from "./request-record.ts";
import type { Attempt, GivenLease } from "./simulated-call.ts";
import { SimulatedCall } from "./simulated-call.ts";
import type { ReplicaEvent } from "./replica-request.ts";
import type { SimulatedTenant } from "./simulated-tenant.ts";
import type { ArrivalSpec } from "./workloads/arrival.ts";
import { promptTokenIds } from "./workloads/prompt-tokens.ts";
import type { World } from "./world.ts";

export interface GatewayOptions {
  readonly world: World;
  readonly tenants: readonly SimulatedTenant[];
  readonly createDispatcher: (listener: VerdictListener) => Dispatcher;
  /** Between an isolate and the pool's object, each way. */
  readonly hopMs: number;
  /** Whether engines are told by when a first token is due; a plain router does not. */
  readonly tellsDeadlines: boolean;
  readonly timeouts: GatewayTimeouts;
}

/** When a gateway gives a replica up that says nothing. */
export interface GatewayTimeouts {
  readonly firstTokenMs: number;
  readonly gapMs: number;
}

/** Replicas that one request may be given to, all of them before its first token. */
const ATTEMPTS_MAX = 2;
/** So many token ids there are; all fit into the engine's 32 bits, and two rarely meet. */
const VOCABULARY_TOKENS = 1 << 20;

/**
 * The edge of a gateway in virtual time: takes requests, asks the dispatcher, sends them to replicas,
 * follows their tokens, and sees to it that each ends once. Tokens do not pass through the pool.
 */
export class Gateway {
  readonly dispatcher: Dispatcher;
  readonly #options: GatewayOptions;
  readonly #links = new Map<ReplicaId, ReplicaLink>();
  readonly #calls = new Map<RequestId, SimulatedCall>();
  readonly #attempts = new Map<string, Attempt>();
  #opened = 0;

  constructor(options: GatewayOptions) {
    this.#options = options;
    this.dispatcher = options.createDispatcher({
      dispatched: (requestId, leaseId, dispatch) =>
        this.#hop(() => this.#dispatched(requestId, { leaseId, dispatch })),
      rejected: (requestId, rejection) => this.#hop(() => this.#rejected(requestId, rejection)),
      displaced: (requestId, leaseId) => this.#hop(() => this.#displaced(requestId, leaseId)),
      forgotten: (requestId) => this.#hop(() => this.#forgotten(requestId)),
    });
  }

  /** Requests that have not ended. */
  get openCalls(): number {
    return this.#calls.size;
  }

  /** Calls that wait for a verdict. */
  *waitingCalls(): Iterable<SimulatedCall> {
    for (const call of this.#calls.values()) if (call.attempt === undefined) yield call;
  }

  /** Lets requests go to a replica. */
  addLink(link: ReplicaLink): void {
    this.#links.set(link.replicaId, link);
  }

  /** A request arrives. `onEnd` is called exactly once. Returns how its client leaves. */
  open(
    request: { readonly spec: ArrivalSpec; readonly index: number; readonly tryNumber: number },
    onEnd: (record: RequestRecord) => void,
  ): () => void {
    const { world, tenants } = this.#options;
    const tenant = tenants[request.spec.tenantIndex];
    assert(tenant !== undefined, "a request has a tenant");
    this.#opened += 1;
    const requestId = RequestId.parse(`request-${this.#opened}`);
    const arrivedAtMs = world.nowMs;
    const call = new SimulatedCall({ ...request, requestId, tenant, arrivedAtMs, onEnd });
    this.#calls.set(requestId, call);
    this.#ask(call);
    return () => this.#leave(call);
  }

  /** What a replica says of its requests. What belongs to no attempt is too late to matter. */
  events(_replicaId: ReplicaId, events: readonly ReplicaEvent[]): void {
    const { nowMs } = this.#options.world;
    for (const event of events) {
      const attempt = this.#attempts.get(event.id);
      if (attempt === undefined) continue;
      switch (event.kind) {
        case "token":
          this.#token(attempt, event.tokenId, nowMs);
          break;
        case "finished":
          this.#finished(attempt, event.cachedTokens);
          break;
        case "refused":
          this.#failed(attempt, "upstream-refused");
          break;
        case "failed":
        case "lost":
          this.#failed(attempt, "upstream-failed");
          break;
        case "prompt-logprobs":
        case "embedded":
          assert(false, "nobody asks for that");
      }
    }
  }

  checkInvariants(): void {
    for (const attempt of this.#attempts.values()) {
      assert(attempt.call.attempt === attempt, "an attempt is its call's");
      assert(!attempt.call.hasEnded, "a call that has ended uses no replica");
    }
    for (const call of this.#calls.values()) assert(!call.hasEnded, "an open call has not ended");
  }

  #hop(happen: () => void): void {
    this.#options.world.after(this.#options.hopMs, happen);
  }

  #ask(call: SimulatedCall): void {
    const { world } = this.#options;
    const { spec, index, tenant, arrivedAtMs } = call.options;
    const offer: Offer = {
      requestId: call.requestId,
      tenantId: tenant.tenantId,
      modelId: tenant.modelId,
      share: tenant.share,
      ...(tenant.overload !== undefined && { overload: tenant.overload }),
      promptBytes: promptBytesOf(spec.promptTokens),
      ...(spec.outputTokensMax !== undefined && { outputTokensMax: spec.outputTokensMax }),
      targets: tenant.targets,
      isStreamed: tenant.isStreamed,
      elapsedMs: world.nowMs - arrivedAtMs,
      prefixes: prefixesOf(spec, index),
      excludedReplicaIds: [...call.failedReplicaIds],
      isRetry: call.dispatches > 0,
    };
    this.#hop(() => {
      if (!call.hasEnded) this.dispatcher.offer(offer);
    });
  }

  #dispatched(requestId: RequestId, lease: GivenLease): void {
    const call = this.#calls.get(requestId);
    if (call === undefined) {
      this.#settle(lease.leaseId, { kind: "client-gone" });
      return;
    }
    const { world } = this.#options;
    const { replicaId, clampedOutputTokensMax = Infinity } = lease.dispatch;
    const link = this.#links.get(replicaId);
    assert(link !== undefined, "a request goes to a replica that exists");
    const { spec, index } = call.options;
    const outputTokens = Math.min(spec.outputTokens, clampedOutputTokensMax);
    const whole = { ...spec, promptTokens: spec.promptTokens + outputTokens };
    const tokenIds = promptTokenIds(whole, index, VOCABULARY_TOKENS);
    const answerTokenIds = tokenIds.splice(spec.promptTokens);
    const attempt = call.begin(lease, answerTokenIds, world.nowMs);
    this.#attempts.set(attempt.attemptId, attempt);
    this.#send(link, attempt, tokenIds);
    this.#watch(attempt);
  }

  #send(link: ReplicaLink, attempt: Attempt, promptIds: readonly number[]): void {
    const { world, tellsDeadlines } = this.#options;
    const { tenant } = attempt.call.options;
    const { dispatch } = attempt;
    const tbtTargetMs = paceMs(tenant.targets);
    const deadlineAtMs = world.nowMs + dispatch.firstTokenBudgetMs;
    link.send({
      id: attempt.attemptId,
      tenant: tenant.tenantId,
      promptTokenIds: promptIds,
      answerTokenIds: attempt.answerTokenIds,
      dispatch: dispatch.dispatch,
      ...(tellsDeadlines && deadlineAtMs < Infinity && { firstTokenDeadlineAtMs: deadlineAtMs }),
      ...(tbtTargetMs < Infinity && { tbtTargetMs }),
      ...(attempt.call.options.spec.isPoisonous === true && { isPoisonous: true }),
    });
  }

  /** Gives the replica up when no token has come for too long, and looks again when that would be. */
  #watch(attempt: Attempt, tokensBefore = 0): void {
    const { world, timeouts } = this.#options;
    const waitMs = attempt.tokens === 0 ? timeouts.firstTokenMs : timeouts.gapMs;
    world.after(waitMs, () => {
      if (this.#attempts.get(attempt.attemptId) !== attempt) return;
      if (attempt.tokens > tokensBefore) {
        this.#watch(attempt, attempt.tokens);
        return;
      }
      this.#links.get(attempt.dispatch.replicaId)?.cancel(attempt.attemptId);
      this.#failed(attempt, "upstream-failed");
    });
  }

  #token(attempt: Attempt, tokenId: number, nowMs: number): void {
    attempt.call.token(attempt, tokenId, nowMs);
    if (attempt.tokens > 1) return;
    const firstTokenAfterMs = nowMs - attempt.beganAtMs;
    this.#hop(() => this.dispatcher.started(attempt.leaseId, firstTokenAfterMs));
  }

  #finished(attempt: Attempt, cachedTokens: number): void {
    const { call, tokens, answerTokenIds } = attempt;
    assert(tokens === answerTokenIds.length, "an answer that is finished is whole");
    this.#drop(attempt);
    call.cachedTokens = cachedTokens;
    const { attainment } = this.#end(call, "stop");
    const { promptTokens } = call.options.spec;
    this.#settle(attempt.leaseId, {
      kind: "completed",
      promptTokens,
      cachedTokens,
      ...call.progressOf(attempt),
      attainment,
    });
  }

  /** Before the first token another replica may do better; behind it the client has seen something. */
  #failed(attempt: Attempt, kind: "upstream-failed" | "upstream-refused"): void {
    const { call, leaseId, dispatch } = attempt;
    this.#drop(attempt);
    call.failedReplicaIds.push(dispatch.replicaId);
    const mayRetry = attempt.tokens === 0 && call.failedReplicaIds.length < ATTEMPTS_MAX;
    if (mayRetry) {
      this.#settle(leaseId, { kind });
      this.#ask(call);
      return;
    }
    const { attainment } = this.#end(call, "failed");
    this.#settle(leaseId, { kind, ...call.progressOf(attempt), attainment });
  }

  #rejected(requestId: RequestId, rejection: Rejection): void {
    const call = this.#calls.get(requestId);
    if (call !== undefined) this.#end(call, "failed", rejection);
  }

  #displaced(requestId: RequestId, leaseId: LeaseId): void {
    const call = this.#calls.get(requestId);
    const attempt = call?.attempt;
    if (call === undefined || attempt?.leaseId !== leaseId || attempt.tokens > 0) return;
    this.#links.get(attempt.dispatch.replicaId)?.cancel(attempt.attemptId);
    this.#drop(attempt);
    this.#settle(leaseId, { kind: "displaced" });
    this.#ask(call);
  }

  #forgotten(requestId: RequestId): void {
    const call = this.#calls.get(requestId);
    if (call !== undefined) this.#end(call, "failed");
  }

  #leave(call: SimulatedCall): void {
    if (call.hasEnded) return;
    const { attempt } = call;
    if (attempt === undefined) {
      this.#end(call, "client-gone");
      this.#hop(() => this.dispatcher.withdraw(call.requestId));
      return;
    }
    this.#links.get(attempt.dispatch.replicaId)?.cancel(attempt.attemptId);
    this.#drop(attempt);
    const { attainment } = this.#end(call, "client-gone");
    this.#settle(attempt.leaseId, { kind: "client-gone", ...call.progressOf(attempt), attainment });
  }

  #settle(leaseId: LeaseId, outcome: Outcome): void {
    this.#hop(() => this.dispatcher.settle(leaseId, outcome));
  }

  #drop(attempt: Attempt): void {
    this.#attempts.delete(attempt.attemptId);
    attempt.call.attempt = undefined;
  }

  #end(call: SimulatedCall, ending: RequestEnding, rejection?: Rejection): RequestRecord {
    this.#calls.delete(call.requestId);
    return call.end(ending, this.#options.world.nowMs, rejection);
  }
}
