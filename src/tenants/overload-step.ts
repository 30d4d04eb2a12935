import type { ModelId } from "../protocol/ids.ts";

/** One thing to do with a request that no replica can serve in time. */
export type OverloadStep =
  /** Wait. `ratio` is the share of the TTFT target, of E2E if not streamed, that waiting may take. */
  | { readonly kind: "queue"; readonly ratio: number }
  /** Cut the answer short, so that it fits. */
  | { readonly kind: "clamp"; readonly outputTokensMax: number }
  /** Ask another model. */
  | { readonly kind: "fallback"; readonly modelId: ModelId }
  | { readonly kind: "reject" };

/** What a tenant wants done under overload, from first to last; what it does not say is a refusal. */
export type OverloadLadder = readonly OverloadStep[];

/** The models that a ladder may ask instead of the one that was asked for. */
export function fallbackModelsOf(ladder: OverloadLadder = []): ModelId[] {
  return ladder.flatMap((step) => (step.kind === "fallback" ? [step.modelId] : []));
}

/** What of a ladder is left for a request that it has sent to another model. */
export function ladderBehind(ladder: OverloadLadder, modelId: ModelId): OverloadLadder {
  const at = ladder.findIndex((step) => step.kind === "fallback" && step.modelId === modelId);
  return at < 0 ? [] : ladder.slice(at + 1);
}

/** A ladder without the steps to models that a request cannot be sent to. */
export function ladderWithin(
  ladder: OverloadLadder,
  isPossible: (modelId: ModelId) => boolean,
): OverloadLadder {
  return ladder.filter((step) => step.kind !== "fallback" || isPossible(step.modelId));
}
