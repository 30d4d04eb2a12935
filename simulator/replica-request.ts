import type { GenerateEvent } from "../gpu-backend/engine/generate-request.ts";
import type { PromptChain } from "../src/protocol/prompt-chain.ts";

/** One request as a simulated engine takes it. */
export interface ReplicaRequest {
  readonly id: string;
  readonly tenant: string;
  readonly promptTokenIds: readonly number[];
  /** What it will say, and how long that is; only the replica is told. */
  readonly answerTokenIds: readonly number[];
  readonly firstTokenDeadlineAtMs?: number;
  readonly tbtTargetMs?: number;
  /** The `x-gw-chain` header: names of what the prompt begins with. */
  readonly promptChain?: PromptChain;
  /** The `x-gw-dispatch` header: the pool's epoch and the number of the dispatch. */
  readonly dispatch?: string;
  /** True: the replica fails it at once, without any work. */
  readonly isPoisonous?: boolean;
}

/** What an engine tells of its requests; `lost` goes to all that were there when its process ended. */
export type ReplicaEvent = GenerateEvent | { readonly kind: "lost"; readonly id: string };
