import { assert } from "../../src/base/assert.ts";
import type { Random } from "../../src/base/random.ts";
import type { IntervalShape } from "./intervals.ts";
import type { RateShape } from "./rate-shape.ts";
import type { LoadBasis } from "./scenarios.ts";
import { priceOfStart } from "./scenarios.ts";
import { SIX_TENANTS, shareOf } from "./tenant-mix.ts";
import type { TenantProfile } from "./tenant-profile.ts";
import type { Workload } from "./workload.ts";

/** How many tenants share how large a load. */
export interface HeavyTailOptions {
  readonly loadRatio: number;
  readonly tenants: number;
  readonly profiles?: readonly TenantProfile[];
  /** 1.1 by default: the first ten of a hundred tenants then have about 62 % of the load. */
  readonly exponent?: number;
}

/**
 * Many tenants as production has them: shares after Zipf's law, gaps of CV 1–8, and peaks of 10–100
 * times a tenant's own mean that hold half of its requests.
 *
 * The quantities follow what ServeGen publishes of 422 tenants (arXiv 2505.09999): top-10 shares of
 * 63–93 %, a median CV of 1.25–1.5 with a 90th percentile of 4–8, peak over mean of 14–119 (medians).
 */
export function heavyTail(basis: LoadBasis, options: HeavyTailOptions, random: Random): Workload {
  const { loadRatio, profiles = SIX_TENANTS, exponent = 1.1 } = options;
  assert(profiles.length > 0, "tenants have a profile to be like");
  const kinds = profiles.map((profile) => ({ profile, price: priceOfStart(basis, profile) }));
  const tenants = zipfShares(options.tenants, exponent).flatMap((partRatio, index) => {
    const kind = kinds[Math.floor(random() * kinds.length)];
    if (kind === undefined) return [];
    const profile: TenantProfile = {
      ...kind.profile,
      name: `${kind.profile.name}-${index}`,
      // Guaranteed is what a tenant sends on average, so its peaks are what nobody promised.
      share: shareOf(partRatio * options.tenants, options.tenants),
      intervals: drawnIntervals(random),
    };
    const startsPerSecond = (loadRatio * partRatio * basis.capacityPerSecond) / kind.price;
    return [{ profile, startsPerSecond, rateShapes: [drawnPeaks(random)] }];
  });
  return { tenants };
}

/** Shares of `count` tenants that fall with their rank to the power of `exponent`; they sum to 1. */
export function zipfShares(count: number, exponent: number): number[] {
  const weights = Array.from({ length: count }, (_, index) => (index + 1) ** -exponent);
  const sum = weights.reduce((total, weight) => total + weight, 0);
  return weights.map((weight) => weight / sum);
}

/** The cube puts half of all tenants below a CV of 1.9 and a tenth above 6. */
function drawnIntervals(random: Random): IntervalShape {
  const cv = 1 + 7 * random() ** 3;
  return random() < 0.5 ? { kind: "gamma", cv } : { kind: "weibull", cv };
}

function drawnPeaks(random: Random): RateShape {
  return {
    kind: "peaks",
    factor: 10 ** (1 + random()),
    insideRatio: 0.5,
    peakMeanMs: 2000 + 18_000 * random(),
  };
}
