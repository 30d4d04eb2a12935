/** How far forecasts of one kind are off: a quantile of log(actual / predicted). */
export interface ResidualQuantile {
  readonly mean: number;
  readonly variance: number;
  /** The quantile lies so many standard deviations above the mean. */
  readonly deviations: number;
}

/** What is learned of a {@link ResidualQuantile}. */
export interface ResidualQuantileState {
  mean: number;
  variance: number;
  deviations: number;
  /** Samples of late, as far as their number matters. */
  samples: number;
  updatedAtMs: number;
}

/** A sample's weight in the mean, which follows a shift soon; it is more while there are few. */
const MEAN_WEIGHT_MIN = 0.01;
/** In the variance: stalls are rare, and still are part of what is to be expected. */
const VARIANCE_WEIGHT_MIN = 0.004;
/** Where learning starts from counts as so many samples. */
const PRIOR_SAMPLES = 10;
/**
 * By so much, less the exceedance ratio's part, one exceedance moves the quantile. Little, since one long
 * prefill is met by all that decode beside it, and so many exceedances at once say no more than one.
 */
const STEP_DEVIATIONS = 0.08;
/** No sample counts as further out than this: one stall must not hide what comes after it. */
const OUTLIER_DEVIATIONS = 12;
/** One shock meets everybody at once: without a limit it would be believed for thousands of samples. */
const DEVIATIONS = { min: 0.5, max: 5 } as const;
const DEVIATION_MIN = 0.003;
/** Bounds are between a sixteenth and sixteen times the forecast. */
const LOG = { min: -Math.log(16), max: Math.log(16) } as const;
/** Silence up to here changes nothing: samples that come seldom must be allowed to add up. */
const QUIET_MS = 10_000;
/** In longer silence what was learned fades to its prior. */
const FADING_MS = 20_000;

export function quantileFrom(prior: ResidualQuantile, nowMs: number): ResidualQuantileState {
  const { mean, variance, deviations } = prior;
  return { mean, variance, deviations, samples: 0, updatedAtMs: nowMs };
}

/** The log of the factor that the forecast is exceeded by. */
export function logQuantile({ mean, variance, deviations }: ResidualQuantile): number {
  return clamp(mean + deviations * Math.sqrt(variance), LOG);
}

export function isSilent(state: ResidualQuantileState, nowMs: number): boolean {
  return nowMs - state.updatedAtMs > QUIET_MS;
}

/** What is left by now of what was learned, and the prior for the rest. */
export function fadedQuantile(
  state: ResidualQuantileState,
  prior: ResidualQuantile,
  nowMs: number,
): ResidualQuantile {
  if (!isSilent(state, nowMs)) return state;
  const kept = keptRatio(state, nowMs);
  return {
    mean: prior.mean + kept * (state.mean - prior.mean),
    variance: prior.variance + kept * (state.variance - prior.variance),
    deviations: prior.deviations + kept * (state.deviations - prior.deviations),
  };
}

/** Makes the fading so far a part of the state: to be done before a sample ends the silence. */
export function fadeQuantile(
  state: ResidualQuantileState,
  prior: ResidualQuantile,
  nowMs: number,
): void {
  if (!isSilent(state, nowMs)) return;
  state.samples *= keptRatio(state, nowMs);
  const { mean, variance, deviations } = fadedQuantile(state, prior, nowMs);
  state.mean = mean;
  state.variance = variance;
  state.deviations = deviations;
  state.updatedAtMs = nowMs;
}

/**
 * Learns one residual, log(actual / predicted), and whether it was beyond what would be promised now.
 *
 * Mean and deviation follow within some hundred samples, up as down. How many deviations the quantile lies
 * above the mean is found by stochastic descent on the pinball loss (adaptive conformal inference, Gibbs
 * and Candès 2021): up when exceeded, down by a little otherwise, so that in the long run the share
 * exceeded is the one asked for, whatever the shape of the errors.
 */
export function learnResidual(
  state: ResidualQuantileState,
  residual: number,
  {
    isExceeded,
    exceedanceRatio,
  }: { readonly isExceeded: boolean; readonly exceedanceRatio: number },
  nowMs: number,
): void {
  const step = STEP_DEVIATIONS * ((isExceeded ? 1 : 0) - exceedanceRatio);
  state.deviations = clamp(state.deviations + step, DEVIATIONS);
  const limit = OUTLIER_DEVIATIONS * Math.sqrt(state.variance);
  const away = clamp(clamp(residual, LOG) - state.mean, { min: -limit, max: limit });
  const weight = 1 / (PRIOR_SAMPLES + state.samples);
  state.mean += Math.max(MEAN_WEIGHT_MIN, weight) * away;
  const varianceWeight = Math.max(VARIANCE_WEIGHT_MIN, weight);
  state.variance = Math.max(
    DEVIATION_MIN ** 2,
    (1 - varianceWeight) * (state.variance + varianceWeight * away ** 2),
  );
  state.samples = Math.min(state.samples + 1, 1 / VARIANCE_WEIGHT_MIN);
  state.updatedAtMs = Math.max(state.updatedAtMs, nowMs);
}

function keptRatio({ updatedAtMs }: ResidualQuantileState, nowMs: number): number {
  return Math.exp(-Math.max(0, nowMs - updatedAtMs - QUIET_MS) / FADING_MS);
}

function clamp(
  value: number,
  { min, max }: { readonly min: number; readonly max: number },
): number {
  return Math.min(max, Math.max(min, value));
}
