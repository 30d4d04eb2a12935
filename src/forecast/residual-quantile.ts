/** What is known of how far forecasts of one kind are off: of log(actual / predicted). */
export interface ResidualQuantileState {
  mean: number;
  variance: number;
  /** The quantile, in standard deviations above the mean. */
  deviations: number;
  /** Samples since the start, as far as their number matters. */
  samples: number;
  updatedAtMs: number;
}

export interface QuantileOptions {
  /** How often the quantile is to be exceeded. */
  readonly exceedanceRatio: number;
  readonly prior: { readonly mean: number; readonly deviation: number };
}

/** Weight of a sample in mean and variance; more while there are few. */
const SAMPLE_WEIGHT_MIN = 0.01;
/** The prior counts as so many samples. */
const PRIOR_SAMPLES = 10;
const PRIOR_DEVIATIONS = 2.75;
/** By so much, less the exceedance ratio, one exceedance moves the quantile. */
const STEP_DEVIATIONS = 0.5;
/** One sample is taken to be no further out than this: a stall must not hide what follows it. */
const OUTLIER_DEVIATIONS = 6;
const DEVIATIONS = { min: 0.5, max: 12 } as const;
const DEVIATION_MIN = 0.01;
/** Bounds are between a sixteenth and sixteen times the forecast. */
const LOG = { min: -Math.log(16), max: Math.log(16) } as const;
/** Silence up to here changes nothing: samples of a quiet pool must be allowed to add up. */
const QUIET_MS = 10_000;
/** Longer silence fades what was learned towards the prior. */
const FADING_MS = 20_000;

export function initialQuantile(options: QuantileOptions, nowMs: number): ResidualQuantileState {
  return {
    mean: options.prior.mean,
    variance: options.prior.deviation ** 2,
    deviations: PRIOR_DEVIATIONS,
    samples: 0,
    updatedAtMs: nowMs,
  };
}

/** The log of the factor that a forecast is exceeded by in a share `exceedanceRatio` of cases. */
export function logQuantileAt(
  state: ResidualQuantileState,
  options: QuantileOptions,
  nowMs: number,
): number {
  const kept = keptRatio(state, nowMs);
  const log = logQuantile(state);
  if (kept === 1) return log;
  const { mean, deviation } = options.prior;
  return kept * log + (1 - kept) * (mean + PRIOR_DEVIATIONS * deviation);
}

/**
 * Learns one residual, log(actual / predicted).
 *
 * Mean and deviation follow within about a hundred samples, up and down. How many deviations the
 * quantile is above the mean is found by stochastic descent on the pinball loss (adaptive conformal
 * inference, Gibbs and Candès 2021): up when exceeded, down by a little otherwise, so that in the long
 * run the share exceeded is the one asked for, whatever the shape of the errors.
 */
export function learnResidual(
  state: ResidualQuantileState,
  residual: number,
  options: QuantileOptions,
  nowMs: number,
): void {
  fade(state, options, nowMs);
  const isExceeded = residual > logQuantile(state);
  const step = STEP_DEVIATIONS * ((isExceeded ? 1 : 0) - options.exceedanceRatio);
  state.deviations = clamp(state.deviations + step, DEVIATIONS);
  const deviation = Math.sqrt(state.variance);
  const limit = OUTLIER_DEVIATIONS * deviation;
  const away = clamp(clamp(residual, LOG) - state.mean, { min: -limit, max: limit });
  const weight = Math.max(SAMPLE_WEIGHT_MIN, 1 / (PRIOR_SAMPLES + state.samples));
  state.mean = clamp(state.mean + weight * away, LOG);
  state.variance = Math.max(
    DEVIATION_MIN ** 2,
    (1 - weight) * (state.variance + weight * away ** 2),
  );
  state.samples = Math.min(state.samples + 1, 1 / SAMPLE_WEIGHT_MIN);
  state.updatedAtMs = Math.max(state.updatedAtMs, nowMs);
}

function logQuantile({ mean, variance, deviations }: ResidualQuantileState): number {
  return clamp(mean + deviations * Math.sqrt(variance), LOG);
}

function keptRatio({ updatedAtMs }: ResidualQuantileState, nowMs: number): number {
  const silentMs = nowMs - updatedAtMs - QUIET_MS;
  return silentMs <= 0 ? 1 : Math.exp(-silentMs / FADING_MS);
}

function fade(state: ResidualQuantileState, { prior }: QuantileOptions, nowMs: number): void {
  const kept = keptRatio(state, nowMs);
  if (kept === 1) return;
  state.mean = prior.mean + kept * (state.mean - prior.mean);
  state.variance = prior.deviation ** 2 + kept * (state.variance - prior.deviation ** 2);
  state.deviations = PRIOR_DEVIATIONS + kept * (state.deviations - PRIOR_DEVIATIONS);
  state.samples *= kept;
  state.updatedAtMs = nowMs;
}

function clamp(
  value: number,
  { min, max }: { readonly min: number; readonly max: number },
): number {
  return Math.min(max, Math.max(min, value));
}
