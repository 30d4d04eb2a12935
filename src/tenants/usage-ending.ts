import type { RequestPricing } from "./model-price.ts";
import type { Settlement } from "./rate-limits.ts";
import type { TokenUse } from "./usage-totals.ts";

/** The model that answered, where it is another one than was asked for, and what its tokens cost. */
export interface ServedModel {
  readonly modelId: string;
  readonly pricing?: RequestPricing;
}

/** How a request ended, as far as its tokens are concerned. */
export type UsageEnding = { readonly served?: ServedModel } & UsageEndingKinds;

type UsageEndingKinds =
  /** No replica was ever asked, so there is nothing to count. */
  | { readonly kind: "refunded" }
  /** By the replica's own counts; of one that gave no answer nothing. */
  | ({ readonly kind: "counted" } & Omit<TokenUse, "isEstimated">)
  /** The answer broke off: its prompt as estimated, and what of its output came by. */
  | ({ readonly kind: "estimated" } & Omit<TokenUse, "isEstimated">)
  /** The client left before an answer that was to come whole: nobody knows what was made of it. */
  | { readonly kind: "unknown" };

/** What the limits per minute are told of it; `undefined` leaves all that was reserved charged. */
export function settlementOf(ending: UsageEnding): Settlement | undefined {
  if (ending.kind === "unknown") return undefined;
  if (ending.kind === "refunded") return { kind: "refunded" };
  return { kind: "used", tokens: ending.promptTokens + ending.outputTokens };
}
