import type { GenerateRequest, Sampling } from "./generate-request.ts";
import type { TokenConstraint } from "./token-constraint.ts";
import type { TokenHistory } from "./token-history.ts";

/**
 * All that a sequence's next token depends on besides the logits.
 *
 * History and constraint are the sequence's own and move with its commits, so a choice is good for the
 * step that it was planned for.
 */
export interface TokenChoice {
  readonly sampling: Sampling;
  /**
   * How many output tokens there are. With the seed it keys the draw, so that neither a preemption
   * nor a prefix hit can shift it.
   */
  readonly outputIndex: number;
  readonly history: TokenHistory;
  /** Stop tokens while the output is shorter than its minimum; empty afterwards. */
  readonly forbiddenTokenIds: readonly number[];
  readonly constraint?: TokenConstraint;
  /** Alternatives told with the token; absent: no log probabilities at all. */
  readonly logprobsTop?: number;
}

/** What decides the token of a request that has so many output tokens before it. */
export function choiceOf(
  request: GenerateRequest,
  at: Pick<TokenChoice, "outputIndex" | "history"> & {
    readonly constraint: TokenConstraint | undefined;
  },
): TokenChoice {
  const { sampling, outputTokensMin, stopTokenIds, logprobsTop } = request;
  const { outputIndex, history, constraint } = at;
  return {
    sampling,
    outputIndex,
    history,
    forbiddenTokenIds: outputIndex < outputTokensMin ? stopTokenIds : [],
    ...(constraint !== undefined && { constraint }),
    ...(logprobsTop !== undefined && { logprobsTop }),
  };
}
