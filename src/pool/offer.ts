import type { ErrorCode } from "../protocol/errors.ts";
import type { ModelId, ReplicaId, RequestId, TenantId } from "../protocol/ids.ts";
import type { SloTargets } from "../slo/targets.ts";

/** One request that asks its pool for a replica. */
export interface Offer {
  readonly requestId: RequestId;
  readonly tenantId: TenantId;
  readonly modelId: ModelId;
  /** Bytes of the prompt's text; the pool turns them into tokens by what it learned of the model. */
  readonly promptBytes: number;
  /** The client's own limit, if it set one. */
  readonly outputTokensMax?: number;
  readonly targets: SloTargets;
  /** From the request's arrival to its first token: the whole time, however much of it is spent. */
  readonly firstTokenTargetMs: number;
  /** What of it is left until the first token is due, counted from this call. */
  readonly firstTokenBudgetMs: number;
  /** Replicas that failed this request before. */
  readonly excludedReplicaIds: readonly ReplicaId[];
}

/** A request's right to use one replica. */
export interface Dispatch {
  readonly replicaId: ReplicaId;
  readonly endpointUrl: string;
  /** Value of the `x-gw-dispatch` header. */
  readonly dispatch: string;
  /** How long the request waited in the pool. */
  readonly queuedMs: number;
  /** What was left of the first-token budget when the verdict was given. */
  readonly firstTokenBudgetMs: number;
}

/** Why a pool refused: `reason` is a metric label, `code` what the client sees. */
export interface Rejection {
  readonly code: ErrorCode;
  readonly reason:
    | "infeasible"
    | "unattainable"
    | "queue-full"
    | "deadline-passed"
    | "no-replica"
    | "withdrawn";
  /** Absent where no other moment would be better: for an `unattainable` request. */
  readonly retryAfterMs: number | undefined;
  /** For an `unattainable` request the wait that an idle replica would mean. */
  readonly predictedWaitMs: number | undefined;
  /** The least that the pool believes the prompt to have; absent where there was no pool to ask. */
  readonly promptTokens: number | undefined;
}

/** How a dispatched request ended, with what is known of it. */
export interface Outcome {
  readonly kind: "completed" | "client-gone" | "upstream-failed" | "upstream-refused" | "abandoned";
  /** Exact counts of the engine; absent when it never said. */
  readonly promptTokens?: number;
  readonly cachedTokens?: number;
  readonly outputTokens?: number;
  /** From the dispatch to the first token. */
  readonly firstTokenAfterMs?: number;
}
