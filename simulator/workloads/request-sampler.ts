import type { Random } from "../../src/base/random.ts";
import type { RequestSize } from "./arrival.ts";
import type { RequestLengths } from "./length-table.ts";
import { expectedOver, sampleLengths } from "./length-table.ts";
import type { TenantProfile } from "./tenant-profile.ts";

/** A request without its place: `prefixGroup` counts within the tenant. */
export interface SampledRequest extends RequestSize {
  readonly prefixGroup: number;
}

/**
 * Draws one request of a tenant; always takes three numbers from `random`.
 *
 * The square makes low groups popular: the first of 100 has a tenth of all requests.
 */
export function sampleRequest(profile: TenantProfile, random: Random): SampledRequest {
  const lengths = sampleLengths(profile.lengths, random);
  const prefixGroup = Math.floor(random() ** 2 * profile.prefixes.groups);
  return { ...sizeOf(profile, lengths), prefixGroup };
}

/** The mean price of one request of a tenant that has no sessions. */
export function expectedRequestPrice(
  profile: TenantProfile,
  price: (size: RequestSize) => number,
): number {
  return expectedOver(profile.lengths, (lengths) => price(sizeOf(profile, lengths)));
}

/** At least the last token of a prompt is its own: an engine has to compute something. */
function sizeOf(
  profile: TenantProfile,
  { promptTokens, outputTokens }: RequestLengths,
): RequestSize {
  return {
    promptTokens,
    prefixTokens: Math.min(
      promptTokens - 1,
      Math.floor(promptTokens * profile.prefixes.promptRatio),
    ),
    outputTokens: Math.min(outputTokens, profile.outputTokensMax ?? outputTokens),
  };
}
