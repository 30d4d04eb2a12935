import { unreachable } from "../../src/base/assert.ts";
import type { Random } from "../../src/base/random.ts";

/**
 * How regular the gaps between a tenant's requests are; `cv` is their standard deviation over their
 * mean. Production tenants have a median of 1.25–1.5 and a 90th percentile of 4–8, and are fitted by
 * Gamma or Weibull (ServeGen, arXiv 2505.09999).
 */
export type IntervalShape =
  | { readonly kind: "poisson" }
  | { readonly kind: "gamma"; readonly cv: number }
  | { readonly kind: "weibull"; readonly cv: number };

/** Gaps by what load generators call burstiness, the shape of a Gamma distribution: 1 is Poisson, less is burstier. */
export function intervalsOf(burstiness: number): IntervalShape {
  return burstiness === 1 ? { kind: "poisson" } : { kind: "gamma", cv: 1 / Math.sqrt(burstiness) };
}

/** Draws gaps of mean 1 and the given shape; multiply by the mean gap that is wanted. */
export function intervalSampler(shape: IntervalShape): (random: Random) => number {
  switch (shape.kind) {
    case "poisson":
      return exponential;
    case "gamma": {
      const k = 1 / (shape.cv * shape.cv);
      return (random) => gamma(k, random) / k;
    }
    case "weibull": {
      const k = weibullShapeOf(shape.cv);
      const scale = 1 / Math.exp(logGamma(1 + 1 / k));
      return (random) => scale * exponential(random) ** (1 / k);
    }
  }
  return unreachable(shape);
}

/** Draws from the exponential distribution of mean 1. */
export function exponential(random: Random): number {
  return -Math.log1p(-random());
}

/** Draws from the standard normal distribution (Box and Muller). */
export function standardNormal(random: Random): number {
  return Math.sqrt(2 * exponential(random)) * Math.cos(2 * Math.PI * random());
}

/** Draws from the gamma distribution of shape `k` and scale 1 (Marsaglia and Tsang, 2000). */
function gamma(k: number, random: Random): number {
  if (k < 1) return gamma(k + 1, random) * (1 - random()) ** (1 / k);
  const d = k - 1 / 3;
  const c = 1 / Math.sqrt(9 * d);
  for (;;) {
    const x = standardNormal(random);
    const v = (1 + c * x) ** 3;
    if (v > 0 && Math.log(1 - random()) < (x * x) / 2 + d * (1 - v + Math.log(v))) return d * v;
  }
}

/** Between these shapes a Weibull's CV runs from 47 down to 0.08. */
const WEIBULL_SHAPE_MIN = 0.15;
const WEIBULL_SHAPE_MAX = 15;
const BISECTION_STEPS = 60;

/** Solves CV² + 1 = Γ(1 + 2/k) / Γ(1 + 1/k)² for k; the right side falls with k. */
function weibullShapeOf(cv: number): number {
  const wanted = Math.log1p(cv * cv);
  let low = WEIBULL_SHAPE_MIN;
  let high = WEIBULL_SHAPE_MAX;
  for (let step = 0; step < BISECTION_STEPS; step += 1) {
    const k = (low + high) / 2;
    if (logGamma(1 + 2 / k) - 2 * logGamma(1 + 1 / k) > wanted) low = k;
    else high = k;
  }
  return (low + high) / 2;
}

const LANCZOS = [
  676.5203681218851, -1259.1392167224028, 771.32342877765313, -176.61502916214059,
  12.507343278686905, -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7,
];

/** ln Γ(x) for x ≥ 1 to about 14 digits (Lanczos, g = 7, n = 9). */
function logGamma(x: number): number {
  const z = x - 1;
  const t = z + 7.5;
  const sum = LANCZOS.reduce((total, c, i) => total + c / (z + i + 1), 0.99999999999980993);
  return 0.5 * Math.log(2 * Math.PI) + (z + 0.5) * Math.log(t) - t + Math.log(sum);
}
