import type { ErrorCode } from "../protocol/errors.ts";
import type { ModelId, ReplicaId, RequestId, TenantId } from "../protocol/ids.ts";
import type { Operation } from "../protocol/operation.ts";
import type { PromptChain } from "../protocol/prompt-chain.ts";
import type { OverloadLadder } from "../tenants/overload-step.ts";
import type { PlainServer, ReplicaTransport } from "../replicas/replica-state.ts";
import type { Attainment } from "../slo/attainment.ts";
import type { SloTargets } from "../slo/targets.ts";
import type { TenantShare } from "../tenants/share.ts";

/** What there is of an answer whose replica failed under way, and by when it has to go on. */
export interface ContinuedAnswer {
  /** As its first replica counted them. */
  readonly promptTokens: number;
  /** That its client has, or will; the next replica prefills them behind the prompt. */
  readonly emittedTokens: number;
  /** What of the targets' time may be spent by its next token. */
  readonly resumeByMs: number;
}

/** One request that asks its pool for a replica. */
export interface Offer {
  readonly requestId: RequestId;
  readonly tenantId: TenantId;
  readonly modelId: ModelId;
  /** The model as its replicas know it; absent where every replica of the pool will do. */
  readonly replicaModelId?: string;
  /** For metrics; absent: a chat. */
  readonly operation?: Operation["name"];
  readonly share: TenantShare;
  /** What the tenant wants done before one of its requests is refused; absent: it waits, then is refused. */
  readonly overload?: OverloadLadder;
  /** Bytes of the prompt's text; the pool turns them into tokens by what it learned of the model. */
  readonly promptBytes: number;
  /** The client's own limit, if it set one. */
  readonly outputTokensMax?: number;
  readonly targets: SloTargets;
  /**
   * Present where the request asks for tighter targets than its tenant was promised: what that was. The wish
   * is its own, so nobody else makes way for it, and to refuse it breaks no promise.
   */
  readonly promised?: SloTargets;
  /** False: the answer comes as a whole, and of the targets only E2E applies. */
  readonly isStreamed: boolean;
  /** What of the targets' time is spent already, counted to this call. */
  readonly elapsedMs: number;
  /** What the prompt begins with, in names that are the tenant's own; absent: nobody can say. */
  readonly chain?: PromptChain;
  /** Requests that should meet at one replica have the same; absent: there is no such. */
  readonly route?: string;
  /** Replicas that failed this request before. */
  readonly excludedReplicaIds: readonly ReplicaId[];
  /** True when it was dispatched before: it counts once, whatever became of that. */
  readonly isRetry: boolean;
  /** What became of the dispatch before, where it was dispatched before. */
  readonly retryReason?: RetryReason;
  /** Present where it is asked to go on with an answer. Its first token has come, so that only a gap is left to keep. */
  readonly continued?: ContinuedAnswer;
}

/** Why a request is dispatched again; for metrics. */
export type RetryReason = "failed" | "refused" | "displaced" | "interrupted";

/** Another replica that computes a request's prompt first. */
export interface PrefillPlace {
  readonly replicaId: ReplicaId;
  readonly endpointUrl: string;
  readonly transport?: ReplicaTransport;
  /** Value of its own `x-gw-dispatch` header. */
  readonly dispatch: string;
  /** What takes longer is better computed where the request is answered. */
  readonly limitMs: number;
}

/** How it went with a prompt that was to be computed elsewhere, and what of it was cached there. */
export type PrefillOutcome =
  | { readonly kind: "done"; readonly cachedTokens: number }
  /** `late`: given up. `refused`: by a replica that is well. `abandoned`: nobody waits for it any more. */
  | { readonly kind: "failed" | "late" | "refused" | "abandoned" };

/** A request's right to use one replica. */
export interface Dispatch {
  readonly replicaId: ReplicaId;
  readonly endpointUrl: string;
  /** How it is reached, beyond its URL. */
  readonly transport?: ReplicaTransport;
  /** Present where the replica is a server that is not ours: it is sent nothing of ours but this. */
  readonly plain?: PlainServer;
  /** Another replica, by its URL, that has more of the prompt cached: KV may be fetched from there. */
  readonly kvPeerUrl?: string;
  /** Present where another replica is to compute the prompt first, for this one to fetch its KV. */
  readonly prefillAt?: PrefillPlace;
  /** Value of the `x-gw-dispatch` header. */
  readonly dispatch: string;
  /** How long the request waited in the pool. */
  readonly queuedMs: number;
  /** What was left of the first-token budget when the verdict was given; `Infinity` without one. */
  readonly firstTokenBudgetMs: number;
  /** What the pool foresees, at the level that it promises; from the dispatch on. */
  readonly forecast: { readonly ttftMs: number; readonly tpotMs: number };
  /** False: the request was beyond what its tenant is guaranteed. */
  readonly isInProfile: boolean;
  /** From 0 to `URGENCY_MAX`; present where its server is to be told. */
  readonly urgency?: number;
  /** Present where the tenant's ladder cut the answer short: it counts as degraded. */
  readonly clampedOutputTokensMax?: number;
}

/** What the holder of a lease goes by who still waits for its answer. */
export interface Prospects {
  /** Whether another replica, one that has not failed the request, has a slot for it now. */
  readonly hasOther: boolean;
  /** Whether nothing has been heard of its own for so long that nothing new is sent there. */
  readonly isSilent: boolean;
}

/** Why a pool refused: `reason` is a metric label, `code` what the client sees. */
export interface Rejection {
  readonly code: ErrorCode;
  readonly reason:
    | "infeasible"
    | "unattainable"
    | "out-of-profile"
    | "queue-full"
    | "deadline-passed"
    | "no-replica"
    | "closed"
    | "withdrawn";
  /** Absent where no other moment would be better: for an `unattainable` request. */
  readonly retryAfterMs: number | undefined;
  /** For an `unattainable` request the wait that an idle replica would mean. */
  readonly predictedWaitMs: number | undefined;
  /** The least that the pool believes the prompt to have; absent where there was no pool to ask. */
  readonly promptTokens: number | undefined;
  /** The model that the tenant's ladder asks instead, if it does. */
  readonly fallbackModelId?: ModelId;
}

/** How a dispatched request ended, with what is known of it; of a continued answer its last part alone. */
export interface Outcome {
  readonly kind:
    | "completed"
    | "client-gone"
    | "upstream-failed"
    | "upstream-refused"
    | "displaced"
    /** Another copy of it answered first. */
    | "overtaken"
    | "abandoned";
  /** Exact counts of the engine; absent when it never said. */
  readonly promptTokens?: number;
  readonly cachedTokens?: number;
  /** Of the output, what is thought rather than said. */
  readonly reasoningTokens?: number;
  readonly outputTokens?: number;
  /** True: another replica is to go on, so that this was not the answer's length. */
  readonly isInterrupted?: boolean;
  /** True: it did not fail, but its time was over. */
  readonly isTimedOut?: boolean;
  /** From the dispatch to the first token. */
  readonly firstTokenAfterMs?: number;
  /** From the first token to the last. */
  readonly decodeMs?: number;
  /** Whether the tenant got what it was promised; absent where that is not for this request to say. */
  readonly attainment?: Attainment;
}
