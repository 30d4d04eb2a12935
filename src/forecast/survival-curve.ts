import { BUCKETS, bucketOf, type LengthHistogram, lowerEdge } from "./length-histogram.ts";

/** Edges of all buckets, the end of the last one included. */
const EDGES = Float64Array.from({ length: BUCKETS + 1 }, (_, bucket) => lowerEdge(bucket));

/** Before anything was seen: log-logistic, half of the outputs longer than this, a mean of about twice that. */
const PRIOR_MEDIAN_TOKENS = 150;
const PRIOR_SHAPE = 1.7;

/**
 * How likely an output is to be longer than so many tokens, and what that means for one that has some
 * already. Reads take constant time.
 */
export class SurvivalCurve {
  /** Chance to end in a bucket, for an output that reaches it. */
  readonly hazards: Float64Array;
  /** Share of outputs that reach a bucket's lower edge. */
  readonly #reaching: Float64Array;
  /** Integral of that up to the edge: the mean of the shorter of an output and the edge. */
  readonly #meanUpTo: Float64Array;
  readonly meanTokens: number;
  readonly medianTokens: number;
  readonly p90Tokens: number;

  constructor(hazards: Float64Array) {
    this.hazards = hazards;
    this.#reaching = new Float64Array(BUCKETS + 1);
    this.#meanUpTo = new Float64Array(BUCKETS + 1);
    let reaching = 1;
    // Every output has a token.
    let mean = edge(0);
    for (let bucket = 0; bucket < BUCKETS; bucket++) {
      this.#reaching[bucket] = reaching;
      this.#meanUpTo[bucket] = mean;
      const left = reaching * (1 - (hazards[bucket] ?? 1));
      mean += ((reaching + left) / 2) * widthOf(bucket);
      reaching = left;
    }
    this.#reaching[BUCKETS] = reaching;
    this.#meanUpTo[BUCKETS] = mean;
    this.meanTokens = mean;
    this.medianTokens = this.#quantile(0.5);
    this.p90Tokens = this.#quantile(0.9);
  }

  /** What is believed where nothing was seen. */
  static prior(): SurvivalCurve {
    return new SurvivalCurve(
      Float64Array.from({ length: BUCKETS }, (_, bucket) =>
        bucket === BUCKETS - 1
          ? 1
          : 1 - priorSurvival(edge(bucket + 1)) / priorSurvival(edge(bucket)),
      ),
    );
  }

  /**
   * The curve of what was seen, shrunk towards another: in every bucket the other counts as
   * `priorWeight` outputs that reached it. This is Kaplan and Meier's estimate (1958) for outputs some
   * of which were cut, under a beta process prior (Hjort 1990): it follows the data where there are
   * some, and the prior beyond the longest output seen.
   */
  static of(histogram: LengthHistogram, prior: SurvivalCurve, priorWeight: number): SurvivalCurve {
    const hazards = new Float64Array(BUCKETS);
    let atRisk = 0;
    for (let bucket = BUCKETS - 1; bucket >= 0; bucket--) {
      const ended = histogram.ended[bucket] ?? 0;
      const cut = histogram.cut[bucket] ?? 0;
      // One that was cut within the bucket went through half of it, in the mean.
      const exposed = atRisk + ended + cut / 2;
      hazards[bucket] =
        (ended + priorWeight * (prior.hazards[bucket] ?? 1)) / (exposed + priorWeight);
      atRisk += ended + cut;
    }
    return new SurvivalCurve(hazards);
  }

  /** Share of outputs longer than `tokens`. */
  survival(tokens: number): number {
    if (tokens <= edge(0)) return 1;
    const bucket = bucketOf(tokens);
    const reaching = this.#reaching[bucket] ?? 0;
    return reaching + within(bucket, tokens) * ((this.#reaching[bucket + 1] ?? 0) - reaching);
  }

  /** Mean of the shorter of an output and `tokens`. */
  meanUpTo(tokens: number): number {
    if (tokens <= edge(0)) return Math.max(0, tokens);
    const bucket = bucketOf(tokens);
    const reaching = this.#reaching[bucket] ?? 0;
    const part = within(bucket, tokens);
    const left = reaching + part * ((this.#reaching[bucket + 1] ?? 0) - reaching);
    return (this.#meanUpTo[bucket] ?? 0) + ((reaching + left) / 2) * part * widthOf(bucket);
  }

  /** Tokens still to come, in the mean, of an output that has `soFarTokens` and ends at `tokensMax` at the latest. */
  residualTokens(soFarTokens: number, tokensMax: number): number {
    const mostTokens = Math.max(0, tokensMax - soFarTokens);
    const surviving = this.survival(soFarTokens);
    if (surviving <= 0) return Math.min(1, mostTokens);
    const tokens = (this.meanUpTo(tokensMax) - this.meanUpTo(soFarTokens)) / surviving;
    return Math.min(Math.max(1, tokens), mostTokens);
  }

  #quantile(ratio: number): number {
    // The last bucket that more than this share of outputs reaches, or the first.
    let bucket = 0;
    let beyond = BUCKETS;
    while (beyond - bucket > 1) {
      const middle = (bucket + beyond) >>> 1;
      if ((this.#reaching[middle] ?? 0) > 1 - ratio) bucket = middle;
      else beyond = middle;
    }
    const reaching = this.#reaching[bucket] ?? 0;
    const ending = reaching - (this.#reaching[bucket + 1] ?? 0);
    const part = ending > 0 ? Math.min(1, (reaching - (1 - ratio)) / ending) : 1;
    return edge(bucket) + part * widthOf(bucket);
  }
}

function priorSurvival(tokens: number): number {
  return 1 / (1 + (tokens / PRIOR_MEDIAN_TOKENS) ** PRIOR_SHAPE);
}

function edge(bucket: number): number {
  return EDGES[bucket] ?? 0;
}

function widthOf(bucket: number): number {
  return edge(bucket + 1) - edge(bucket);
}

function within(bucket: number, tokens: number): number {
  return Math.min(1, Math.max(0, (tokens - edge(bucket)) / widthOf(bucket)));
}
