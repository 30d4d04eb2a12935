import * as z from "zod";
import type { Picos } from "./money.ts";
import type { TokenUse } from "./usage-totals.ts";

/** For a million tokens; in `Picos` it is then a whole number for each token. */
export const PRICE_MICROS_MAX = 1_000_000_000_000;

const PicosPerToken = z.int().min(0).max(PRICE_MICROS_MAX);

/** What tokens of a model cost: picos a token, which are millionths of the currency a million tokens. */
export const ModelPrice = z.strictObject({
  inputPicosPerToken: PicosPerToken,
  /** Of prompt tokens that a replica had in its prefix cache. */
  cachedInputPicosPerToken: PicosPerToken,
  outputPicosPerToken: PicosPerToken,
});
export type ModelPrice = z.infer<typeof ModelPrice>;

/** What a request needs to be charged, as it was when it was reserved: prices change meanwhile. */
export const RequestPricing = z.strictObject({
  price: ModelPrice,
  /** The most that all of its answers can come to. */
  outputTokensMax: z.int().min(0),
});
export type RequestPricing = z.infer<typeof RequestPricing>;

/** The most that a request can cost, as far as its prompt is estimated well. */
export function costMaxOf(promptTokens: number, pricing: RequestPricing | undefined): Picos {
  if (pricing === undefined) return 0n;
  const { price, outputTokensMax } = pricing;
  const dearestInput = Math.max(price.inputPicosPerToken, price.cachedInputPicosPerToken);
  return (
    BigInt(promptTokens) * BigInt(dearestInput) +
    BigInt(outputTokensMax) * BigInt(price.outputPicosPerToken)
  );
}

/** What a request costs that has used so much; nothing where its model has no price. */
export function costOf(
  { promptTokens, cachedTokens, outputTokens }: Omit<TokenUse, "isEstimated">,
  pricing: RequestPricing | undefined,
): Picos {
  if (pricing === undefined) return 0n;
  const { inputPicosPerToken, cachedInputPicosPerToken, outputPicosPerToken } = pricing.price;
  // The counts are a replica's, which may be wrong about itself: no prompt was cached more than whole.
  const cached = Math.min(cachedTokens, promptTokens);
  return (
    BigInt(promptTokens - cached) * BigInt(inputPicosPerToken) +
    BigInt(cached) * BigInt(cachedInputPicosPerToken) +
    BigInt(outputTokens) * BigInt(outputPicosPerToken)
  );
}
