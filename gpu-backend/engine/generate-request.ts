/** How the next token is drawn. Temperature 0 is greedy, and then the rest has no effect. */
export interface Sampling {
  readonly temperature: number;
  /** 0 keeps all tokens. */
  readonly topK: number;
  /** 1 keeps all tokens. */
  readonly topP: number;
  /** With the position it fixes every draw, whatever else is in the batch. */
  readonly seed: number;
}

/** One request as the engine takes it: token ids in, token ids out. */
export interface GenerateRequest {
  readonly id: string;
  readonly promptTokens: readonly number[];
  readonly outputTokensMax: number;
  readonly sampling: Sampling;
  /** Tokens that end the output; such a token is counted but yields no text. */
  readonly stopTokenIds: readonly number[];
  /** The KV namespace: requests share cached blocks only under one salt. */
  readonly cacheSalt: string;
  /** A request that has not started by then is refused instead of served late. */
  readonly firstTokenDeadlineAtMs?: number;
  /** The largest gap between two tokens that was promised. */
  readonly tbtTargetMs?: number;
}

export type RefusalReason =
  | "queue-full"
  | "deadline-passed"
  | "prompt-too-long"
  | "kv-too-small"
  | "draining";

/** Why a request that was served ended. */
export type FinishReason = "stop" | "length" | "cancelled";

/** What happened to a request; every request ends with exactly one of the last three kinds. */
export type GenerateEvent =
  | { readonly kind: "token"; readonly id: string; readonly tokenId: number }
  | {
      readonly kind: "finished";
      readonly id: string;
      readonly reason: FinishReason;
      readonly promptTokens: number;
      /** Prompt tokens that were found in the prefix cache at admission. */
      readonly cachedTokens: number;
      readonly outputTokens: number;
    }
  | { readonly kind: "refused"; readonly id: string; readonly reason: RefusalReason }
  | { readonly kind: "failed"; readonly id: string; readonly message: string };
