import { assert } from "../src/base/assert.ts";
import type { Outcome, Rejection } from "../src/pool/offer.ts";
import type { LeaseId, ReplicaId } from "../src/protocol/ids.ts";
import { RequestId } from "../src/protocol/ids.ts";
import type { RequestEnding } from "../src/slo/timeline.ts";
import { answerTokensOf, endingOf } from "./answer-length.ts";
import type { AttemptWatchOptions } from "./attempt-watch.ts";
import { AttemptWatch } from "./attempt-watch.ts";
import type { Dispatcher, VerdictListener } from "./dispatcher.ts";
import { offerOf } from "./offer-of.ts";
import type { ReplicaLink } from "./replica-link.ts";
import { replicaRequestOf } from "./replica-request-of.ts";
import type { RequestRecord } from "./request-record.ts";
import type { Attempt, GivenLease } from "./simulated-call.ts";
import { SimulatedCall } from "./simulated-call.ts";
import type { ReplicaEvent } from "./replica-request.ts";
import type { SimulatedTenant } from "./simulated-tenant.ts";
import type { ArrivalSpec } from "./workloads/arrival.ts";
import { promptTokenIds } from "./workloads/prompt-tokens.ts";

export interface GatewayOptions extends Pick<
  AttemptWatchOptions,
  "world" | "timeouts" | "actsOnLateness"
> {
  readonly tenants: readonly SimulatedTenant[];
  readonly createDispatcher: (listener: VerdictListener) => Dispatcher;
  /** Between an isolate and the pool's object, each way. */
  readonly hopMs: number;
  /** Whether engines are told by when a first token is due; a plain router does not. */
  readonly tellsDeadlines: boolean;
}

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
  readonly #watch: AttemptWatch;
  #opened = 0;

  constructor(options: GatewayOptions) {
    this.#options = options;
    this.#watch = new AttemptWatch({
      ...options,
      onTimeout: (attempt) => this.#giveUp(attempt),
      onLate: (attempt) => this.#late(attempt),
    });
    this.dispatcher = options.createDispatcher({
      dispatched: (requestId, leaseId, dispatch) =>
        this.#hop(() => this.#dispatched(requestId, { leaseId, dispatch })),
      hedged: (requestId, leaseId, dispatch) =>
        this.#hop(() => this.#hedged(requestId, { leaseId, dispatch })),
      hopeless: (requestId, leaseId) => this.#hop(() => this.#hopeless(requestId, leaseId)),
      rejected: (requestId, rejection) => this.#hop(() => this.#rejected(requestId, rejection)),
      displaced: (requestId, leaseId) => this.#hop(() => this.#displaced(requestId, leaseId)),
      askPrefixes: (id) => this.#hop(() => this.#links.get(id)?.replica.tellPrefixesAnew()),
      forgotten: (requestId) => this.#hop(() => this.#forgotten(requestId)),
    });
  }

  /** Requests that have not ended. */
  get openCalls(): number {
    return this.#calls.size;
  }

  /** Calls that have not ended; those without an attempt wait for a verdict. */
  calls(): Iterable<SimulatedCall> {
    return this.#calls.values();
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
      assert(attempt.call.attempts.has(attempt), "an attempt is its call's");
      assert(!attempt.call.hasEnded, "a call that has ended uses no replica");
    }
    for (const call of this.#calls.values()) assert(!call.hasEnded, "an open call has not ended");
  }

  #hop(happen: () => void): void {
    this.#options.world.after(this.#options.hopMs, happen);
  }

  #ask(call: SimulatedCall): void {
    const offer = offerOf(call, this.#options.world.nowMs);
    this.#hop(() => {
      if (!call.hasEnded) this.dispatcher.offer(offer);
    });
  }

  #dispatched(requestId: RequestId, lease: GivenLease): void {
    const call = this.#calls.get(requestId);
    if (call === undefined) this.#settle(lease.leaseId, { kind: "client-gone" });
    else this.#begin(call, lease);
  }

  /** Who was late may have begun or failed while its second copy was asked for. */
  #hedged(requestId: RequestId, lease: GivenLease): void {
    const call = this.#calls.get(requestId);
    const [first] = call?.attempts ?? [];
    if (call === undefined || first === undefined || first.tokens > 0) {
      this.#settle(lease.leaseId, { kind: "overtaken" });
    } else {
      this.#begin(call, lease);
    }
  }

  #begin(call: SimulatedCall, lease: GivenLease): void {
    const { world, tellsDeadlines } = this.#options;
    const link = this.#links.get(lease.dispatch.replicaId);
    assert(link !== undefined, "a request goes to a replica that exists");
    const { spec, index } = call.options;
    const outputTokens = answerTokensOf(spec, lease.dispatch, link.replica.hello);
    const whole = { ...spec, promptTokens: spec.promptTokens + outputTokens };
    const tokenIds = promptTokenIds(whole, index, VOCABULARY_TOKENS);
    const answerTokenIds = tokenIds.splice(spec.promptTokens);
    const attempt = call.begin(lease, answerTokenIds, world.nowMs);
    this.#attempts.set(attempt.attemptId, attempt);
    const { nowMs } = world;
    link.send(replicaRequestOf(attempt, tokenIds, { nowMs, tellsDeadlines }));
    this.#watch.watch(attempt);
  }

  #late({ call, leaseId, dispatch }: Attempt): void {
    const asked = [...call.attempts].map((attempt) => attempt.dispatch.replicaId);
    const excludedReplicaIds = [...call.failedReplicaIds, ...asked];
    const offer = { ...offerOf(call, this.#options.world.nowMs), excludedReplicaIds };
    this.#hop(() => this.dispatcher.late?.({ leaseId, replicaId: dispatch.replicaId }, offer));
  }

  #hopeless(requestId: RequestId, leaseId: LeaseId): void {
    const call = this.#calls.get(requestId);
    const late = [...(call?.attempts ?? [])].find((attempt) => attempt.leaseId === leaseId);
    if (call === undefined || late === undefined || !this.#watch.mayBeLate(late)) return;
    for (const attempt of call.attempts) this.#giveUp(attempt);
  }

  #giveUp(attempt: Attempt): void {
    this.#cancel(attempt);
    this.#failed(attempt, "upstream-failed");
  }

  #cancel({ dispatch, attemptId }: Attempt): void {
    this.#links.get(dispatch.replicaId)?.cancel(attemptId);
  }

  #token(attempt: Attempt, tokenId: number, nowMs: number): void {
    for (const other of attempt.call.attempts) {
      if (other === attempt) continue;
      this.#cancel(other);
      this.#drop(other);
      this.#settle(other.leaseId, { kind: other.isHedge ? "overtaken" : "upstream-failed" });
    }
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
    const { attainment } = this.#end(call, endingOf(attempt));
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
    const isAlone = call.attempts.size === 0;
    const mayRetry = attempt.tokens === 0 && call.failedReplicaIds.length < this.#watch.attemptsMax;
    if (mayRetry || !isAlone) {
      this.#settle(leaseId, { kind });
      if (isAlone) this.#ask(call);
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
    const [attempt] = call?.attempts ?? [];
    if (call === undefined || attempt?.leaseId !== leaseId || attempt.tokens > 0) return;
    this.#cancel(attempt);
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
    const [attempt, other] = call.attempts;
    if (attempt === undefined) {
      this.#end(call, "client-gone");
      this.#hop(() => this.dispatcher.withdraw(call.requestId));
      return;
    }
    if (other !== undefined) {
      this.#cancel(other);
      this.#drop(other);
      this.#settle(other.leaseId, { kind: "client-gone" });
    }
    this.#cancel(attempt);
    this.#drop(attempt);
    const { attainment } = this.#end(call, "client-gone");
    this.#settle(attempt.leaseId, { kind: "client-gone", ...call.progressOf(attempt), attainment });
  }

  #settle(leaseId: LeaseId, outcome: Outcome): void {
    this.#hop(() => this.dispatcher.settle(leaseId, outcome));
  }

  #drop(attempt: Attempt): void {
    this.#attempts.delete(attempt.attemptId);
    attempt.call.attempts.delete(attempt);
  }

  #end(call: SimulatedCall, ending: RequestEnding, rejection?: Rejection): RequestRecord {
    this.#calls.delete(call.requestId);
    return call.end(ending, this.#options.world.nowMs, rejection);
  }
}
