import type { Rejection, RetryReason } from "../src/pool/offer.ts";
import type { Problem } from "../src/protocol/errors.ts";
import type { ModelId, ReplicaId, RequestId, TenantId } from "../src/protocol/ids.ts";
import type { Operation } from "../src/protocol/operation.ts";
import type { TraceContext } from "../src/protocol/trace-context.ts";
import type { UpstreamUsage } from "../src/protocol/upstream-answer.ts";
import type { Attainment } from "../src/slo/attainment.ts";
import type { MissCause } from "../src/slo/miss-cause.ts";
import { TimelineRecorder } from "../src/slo/timeline.ts";
import type { InterruptedAnswer } from "../src/streaming/interrupted-answer.ts";
import type { TokenStream } from "../src/streaming/token-stream.ts";
import type { LiveModel, LiveTenant } from "../src/tenants/live-configuration.ts";
import type { GivenPromise } from "../src/tenants/asked-promise.ts";
import type { RequestPricing } from "../src/tenants/model-price.ts";
import type { OverloadLadder } from "../src/tenants/overload-step.ts";
import type { RateStandings } from "../src/tenants/rate-limits.ts";
import type { TenantShare } from "../src/tenants/share.ts";
import type { CallWatch } from "./call-watch.ts";
import type { RequestKeys } from "./request-keys.ts";

/** A model that a call is sent to, and what is sent there. */
export interface CallTarget {
  readonly model: LiveModel;
  /** The tenant's part in the model's pool. */
  readonly share: TenantShare;
  /** The body for a replica: the client's own text, but for what the gateway decides. */
  readonly upstreamBody: string;
  readonly outputTokensMax: number | undefined;
  /** What is needed to charge for it; absent where its model has no price. */
  readonly pricing: RequestPricing | undefined;
  /** By which its prompt is found again there. */
  readonly keys: RequestKeys;
  /** What is left of the tenant's overload ladder; absent: it has none. */
  readonly overload: OverloadLadder | undefined;
}

/** A model that may be asked instead, and how the call is made ready for it. */
interface Fallback {
  readonly modelId: ModelId;
  readonly prepare: () => CallTarget;
}

/** One request for an operation that has passed every check of its own. */
export interface CheckedRequest {
  readonly operation: Operation;
  readonly requestId: RequestId;
  readonly tenant: LiveTenant;
  /** Of the key that it came with. */
  readonly keyName: string;
  /** What it was promised, and what it asks for. */
  readonly promise: GivenPromise;
  /** What it asks for. */
  readonly target: CallTarget;
  /** What the tenant's overload ladder may ask instead. */
  readonly fallbacks: readonly Fallback[];
  /** It has one prompt, which came as text. */
  readonly isOneText: boolean;
  /** Of all prompts. */
  readonly promptBytes: number;
  /** Of all prompts, as far as can be told without their tokenizer. */
  readonly promptTokens: number;
  /** The most that it can take and cost, whichever of its models answers. */
  readonly tokensMax: number;
  readonly pricing: RequestPricing | undefined;
  readonly choiceCount: number;
  /** Whether the client wants the answer token by token, and the counts at its end. */
  readonly isStreamed: boolean;
  readonly includeUsage: boolean;
  /** Whether it wants to know where the time of a stream went, beside the counts. */
  readonly includeMetrics: boolean;
  /** Whether it wants a stream at an even pace rather than each token at once. */
  readonly isPaced: boolean;
  /** Whether another replica is to go on with its answer when one fails under way. */
  readonly isContinuable: boolean;
}

/** A checked request on its way to its answer. */
export interface Call extends CheckedRequest {
  /** Where it is sent now: its tenant's ladder may have it cut short, or ask another model. */
  target: CallTarget;
  readonly watch: CallWatch;
  readonly record: CallRecord;
  readonly timeline: TimelineRecorder;
}

/** What is known of a call so far: its stages write, the answer's head and the log line read. */
export interface CallRecord {
  readonly operation: Operation["name"];
  /** The gateway's span of the request, which all attempts at it belong to. */
  readonly trace: TraceContext;
  /** When the handler was entered, and how long the client then took to send its body. */
  readonly arrivedAtMs: number;
  uploadMs: number;
  tenantId: TenantId | undefined;
  modelId: ModelId | undefined;
  /** Replicas asked, and how often one of them to go on with an answer. */
  attempts: number;
  continuations: number;
  /** Of the attempts those at another model than the one asked now. */
  attemptsElsewhere: number;
  /** What of the answer is less than was asked for; empty where nothing is. */
  readonly degraded: string[];
  /** What a further attempt would be for. */
  retryReason: RetryReason | undefined;
  replicaId: ReplicaId | undefined;
  /** Waiting in the pool, over all attempts. */
  queuedMs: number;
  dispatchedAtMs: number | undefined;
  /** The same of the replica asked last, which may go on with what another one began. */
  ownDispatchedAtMs: number | undefined;
  /** Whether the last dispatch was within what its tenant is guaranteed. */
  isInProfile: boolean | undefined;
  /** From the start: by then the pool expected the first token, at the level that it promises. */
  predictedTtftMs: number | undefined;
  /** The answer of the replica asked last, where it is streamed. */
  stream: TokenStream | undefined;
  /** The answer as far as it came where its replica failed under way; the next one goes on behind it. */
  interrupted: InterruptedAnswer | undefined;
  usage: UpstreamUsage | undefined;
  /** Whether the tenant got what it was promised; absent until that is certain. */
  attainment: Attainment | undefined;
  /** Whether the replica found anything of the prompt cached; absent until it has said so. */
  isPromptCached: boolean | undefined;
  /** Present where another replica computed the prompt than the one that answers: what of it that one had cached. */
  cachedTokensMax?: number;
  /** True: no replica was asked, as the same request had been answered before. */
  isReplayed: boolean;
  /** What the miss was made of, where it is one. */
  missCause: MissCause | undefined;
  /** Why the pool refused, where it did, and whether that was within its tenant's guarantee. */
  rejectedFor: Rejection["reason"] | undefined;
  isRefusedByUs: boolean;
  /** How the tenant's limits stood when they were asked, and which of them refused. */
  standings: RateStandings;
  limitedBy: keyof RateStandings | "concurrency" | "month" | "spend" | undefined;
  /** Why the answer is not whole; absent for a whole one. */
  problem: Problem | undefined;
}

/** Begins the record of a request that has just arrived. */
export function newCallRecord(
  { name }: Operation,
  trace: TraceContext,
  arrivedAtMs: number,
): CallRecord {
  return {
    operation: name,
    trace,
    arrivedAtMs,
    uploadMs: 0,
    tenantId: undefined,
    modelId: undefined,
    attempts: 0,
    continuations: 0,
    attemptsElsewhere: 0,
    degraded: [],
    retryReason: undefined,
    replicaId: undefined,
    queuedMs: 0,
    dispatchedAtMs: undefined,
    ownDispatchedAtMs: undefined,
    isInProfile: undefined,
    predictedTtftMs: undefined,
    stream: undefined,
    interrupted: undefined,
    usage: undefined,
    attainment: undefined,
    isPromptCached: undefined,
    isReplayed: false,
    missCause: undefined,
    rejectedFor: undefined,
    isRefusedByUs: false,
    standings: {},
    limitedBy: undefined,
    problem: undefined,
  };
}

/** Begins the timeline by which it is judged whether a call got what its tenant was promised. */
export function newTimeline(
  { promise, isStreamed }: CheckedRequest,
  { arrivedAtMs, uploadMs }: CallRecord,
): TimelineRecorder {
  return new TimelineRecorder({ arrivedAtMs, uploadMs, isStreamed, targets: promise.promised });
}

/** When a call's time began to run: its arrival, put off by what the client took to send its body. */
export function startedAtMs({ arrivedAtMs, uploadMs }: CallRecord): number {
  return arrivedAtMs + uploadMs;
}
