import { assert } from "../base/assert.ts";
import type { BinPosition } from "./forecast-bins.ts";
import { binOf, binPositionOf, BINS, firstBinOf } from "./forecast-bins.ts";
import { renewEntry } from "./bounded-map.ts";
import {
  fadedQuantile,
  fadeQuantile,
  isSilent,
  learnResidual,
  logQuantile,
  quantileFrom,
  type ResidualQuantile,
  type ResidualQuantileState,
} from "./residual-quantile.ts";
import { TenantBias, type TenantBiasState } from "./tenant-bias.ts";

export type ForecastDimension = "ttft" | "tpot";

/** What a forecast was made for. */
export interface CalibrationContext {
  /** Model and hardware class: what shares its errors. */
  readonly profile: string;
  readonly tenantId: string;
  /** The target it was held against; `Infinity` without one. */
  readonly targetMs: number;
  /** Expected: a mean over few tokens is off by more than one over many. */
  readonly outputTokens?: number;
}

/** A forecast of the past, with the bound that was given for it. */
export interface PastForecast extends CalibrationContext {
  readonly predictedMs: number;
  readonly boundMs: number;
}

/** How often bounds of one kind were exceeded; since the start. */
interface Coverage {
  samples: number;
  exceeded: number;
}

export interface BinCoverage extends Readonly<Coverage> {
  readonly profile: string;
  readonly dimension: ForecastDimension;
  /** Where predicted / target lies: [0, ¼), [¼, ½), [½, ¾), [¾, ∞); of short outputs four more. */
  readonly bin: number;
}

interface BinState {
  readonly quantile: ResidualQuantileState;
  readonly coverage: Coverage;
}

/** What is known of one profile's errors in one dimension. */
export interface ProfileErrors {
  /** Of all bins together: where a bin begins, and what it comes back to in silence. */
  readonly pooled: ResidualQuantileState;
  /** Which forecasts are usual there, a decaying mean; absent before the first sample. */
  usualMs?: number;
  readonly bins: (BinState | undefined)[];
}

export interface CalibrationState {
  /** The longest silent one first. */
  readonly byProfile: Map<string, Record<ForecastDimension, ProfileErrors>>;
  readonly bias: Record<ForecastDimension, TenantBiasState>;
}

export interface CalibrationOptions {
  /** How often a bound may be exceeded, by dimension. */
  readonly exceedanceRatios: Readonly<Record<ForecastDimension, number>>;
  readonly profilesMax: number;
  readonly tenantsMax: number;
}

/**
 * Errors come from what happens beside a request, so they are as large for a short forecast as for a
 * long one: ratios are taken of sums with so many times the usual forecast. Not of what came in the end, or one
 * absurd answer would set the measure for all.
 */
const OFFSET_RATIO = 3;
const USUAL_SAMPLES = 200;
/** No bound is longer than so many times the forecast and what is usual together. */
const BOUND_RATIO_MAX = 16;

/** Most requests are admitted well within their targets, so targets are missed far less often than bounds. */
export const EXCEEDANCE_RATIOS = { ttft: 0.003, tpot: 0.01 } as const;

const DEFAULT_OPTIONS: CalibrationOptions = {
  exceedanceRatios: EXCEEDANCE_RATIOS,
  profilesMax: 64,
  tenantsMax: 1024,
};

const PRIOR_DEVIATIONS = 2.75;
/** Before any sample. A TTFT hangs on a queue; a TPOT is a mean of many steps. */
const PRIORS: Readonly<Record<ForecastDimension, ResidualQuantile>> = {
  ttft: { mean: 0, variance: 0.08 ** 2, deviations: PRIOR_DEVIATIONS },
  tpot: { mean: 0, variance: 0.03 ** 2, deviations: PRIOR_DEVIATIONS },
};

/**
 * Turns forecasts into bounds that hold but for a set share of requests, learning from how far past
 * forecasts were off.
 *
 * Errors are shared by all tenants of a profile, apart by how near the forecast came to its target; a
 * tenant's own bias is only a correction to them, and fades. So nobody can be refused for good: without
 * samples every bound comes back to its prior. Nothing is promised in theory (forecasts that were
 * refused teach nothing); coverage is counted instead.
 */
export class Calibration {
  readonly state: CalibrationState;
  readonly #options: CalibrationOptions;
  readonly #bias: Readonly<Record<ForecastDimension, TenantBias>>;

  constructor(
    options: Partial<CalibrationOptions> = {},
    state: CalibrationState = { byProfile: new Map(), bias: { ttft: new Map(), tpot: new Map() } },
  ) {
    this.#options = { ...DEFAULT_OPTIONS, ...options };
    this.state = state;
    const { tenantsMax } = this.#options;
    this.#bias = {
      ttft: new TenantBias({ tenantsMax }, state.bias.ttft),
      tpot: new TenantBias({ tenantsMax }, state.bias.tpot),
    };
  }

  /** What the actual value exceeds only in a share `exceedanceRatio` of cases. Learns nothing. */
  upperBoundMs(
    dimension: ForecastDimension,
    predictedMs: number,
    context: CalibrationContext,
    nowMs: number,
  ): number {
    const errors = this.state.byProfile.get(context.profile)?.[dimension];
    const position = binPositionOf(dimension, predictedMs, context);
    const sharedLog = this.#sharedLog(dimension, errors, position, nowMs);
    const ownLog = this.#bias[dimension].at(context.tenantId, nowMs);
    const usualMs = errors?.usualMs ?? predictedMs;
    const offsetMs = OFFSET_RATIO * usualMs;
    const boundMs = (predictedMs + offsetMs) * Math.exp(sharedLog + ownLog) - offsetMs;
    const shortestMs = predictedMs / BOUND_RATIO_MAX;
    const longestMs = BOUND_RATIO_MAX * (predictedMs + usualMs);
    return Math.min(longestMs, Math.max(shortestMs, boundMs));
  }

  /** Learns from a request whose actual value is known. */
  learn(
    dimension: ForecastDimension,
    sample: PastForecast & { readonly actualMs: number },
    nowMs: number,
  ): void {
    const { actualMs, boundMs, predictedMs, tenantId } = sample;
    const { exceedanceRatios, profilesMax } = this.#options;
    const exceedanceRatio = exceedanceRatios[dimension];
    const errors = renewEntry(this.state.byProfile, sample.profile, profilesMax, () => ({
      ttft: { pooled: quantileFrom(PRIORS.ttft, nowMs), bins: noBins() },
      tpot: { pooled: quantileFrom(PRIORS.tpot, nowMs), bins: noBins() },
    }))[dimension];
    fadeQuantile(errors.pooled, PRIORS[dimension], nowMs);
    const position = binPositionOf(dimension, predictedMs, sample);
    const index = binOf(position);
    const bin = (errors.bins[index] ??= {
      quantile: quantileFrom(this.#inherited(dimension, errors, index, nowMs), nowMs),
      coverage: { samples: 0, exceeded: 0 },
    });
    if (isSilent(bin.quantile, nowMs)) {
      fadeQuantile(bin.quantile, this.#inherited(dimension, errors, index, nowMs), nowMs);
    }
    bin.coverage.samples += 1;
    if (actualMs > boundMs) bin.coverage.exceeded += 1;

    const bias = this.#bias[dimension];
    const usualMs = errors.usualMs ?? predictedMs;
    errors.usualMs = usualMs + (predictedMs - usualMs) / USUAL_SAMPLES;
    const offsetMs = OFFSET_RATIO * usualMs;
    const residual = Math.log((actualMs + offsetMs) / (predictedMs + offsetMs));
    const sharedResidual = residual - bias.at(tenantId, nowMs);
    bias.learn(tenantId, residual - bin.quantile.mean, nowMs);
    const isExceeded = sharedResidual > this.#sharedLog(dimension, errors, position, nowMs);
    learnResidual(bin.quantile, sharedResidual, { isExceeded, exceedanceRatio }, nowMs);
    const isPooledExceeded = sharedResidual > logQuantile(errors.pooled);
    const ofAll = { isExceeded: isPooledExceeded, exceedanceRatio };
    learnResidual(errors.pooled, sharedResidual, ofAll, nowMs);
  }

  /**
   * Learns from a request that ended before its value was known. Only if it had exceeded its bound by
   * then it says something: the value is at least that large.
   */
  learnCensored(
    dimension: ForecastDimension,
    sample: PastForecast & { readonly atLeastMs: number },
    nowMs: number,
  ): void {
    if (sample.atLeastMs <= sample.boundMs) return;
    this.learn(dimension, { ...sample, actualMs: sample.atLeastMs }, nowMs);
  }

  /** How often bounds were exceeded, of every bin that has samples. */
  coverage(): BinCoverage[] {
    return [...this.state.byProfile].flatMap(([profile, dimensions]) =>
      (["ttft", "tpot"] as const).flatMap((dimension) =>
        dimensions[dimension].bins.flatMap((state, bin) =>
          state === undefined ? [] : [{ profile, dimension, bin, ...state.coverage }],
        ),
      ),
    );
  }

  checkInvariants(): void {
    assert(this.state.byProfile.size <= this.#options.profilesMax, "profiles are bounded");
    for (const bias of Object.values(this.#bias)) bias.checkInvariants();
    for (const { samples, exceeded } of this.coverage()) {
      assert(exceeded <= samples, "no more bounds are exceeded than were given");
    }
  }

  /**
   * The error that is reckoned with, between those of the two bins next to a forecast: with a step from
   * one to the other, a pool would fill up to just below it, and nothing but the step would decide.
   */
  #sharedLog(
    dimension: ForecastDimension,
    errors: ProfileErrors | undefined,
    { first, place }: BinPosition,
    nowMs: number,
  ): number {
    const below = Math.floor(place);
    const belowLog = this.#logOf(dimension, errors, first + below, nowMs);
    if (place === below) return belowLog;
    const aboveLog = this.#logOf(dimension, errors, first + below + 1, nowMs);
    return belowLog + (place - below) * (aboveLog - belowLog);
  }

  #logOf(
    dimension: ForecastDimension,
    errors: ProfileErrors | undefined,
    index: number,
    nowMs: number,
  ): number {
    const bin = errors?.bins[index];
    return bin === undefined || isSilent(bin.quantile, nowMs)
      ? logQuantile(this.#believed(dimension, errors, index, nowMs))
      : logQuantile(bin.quantile);
  }

  /** What a bin says, where it says nothing, or nothing of late. */
  #believed(
    dimension: ForecastDimension,
    errors: ProfileErrors | undefined,
    index: number,
    nowMs: number,
  ): ResidualQuantile {
    if (errors === undefined) return PRIORS[dimension];
    const inherited = this.#inherited(dimension, errors, index, nowMs);
    const bin = errors.bins[index];
    return bin === undefined ? inherited : fadedQuantile(bin.quantile, inherited, nowMs);
  }

  /**
   * What a bin begins with and comes back to: the errors of the forecasts next below, which if anything
   * fell short by more. A bin that was refused everything would otherwise never learn that it need not.
   */
  #inherited(
    dimension: ForecastDimension,
    errors: ProfileErrors,
    index: number,
    nowMs: number,
  ): ResidualQuantile {
    const pooled = fadedQuantile(errors.pooled, PRIORS[dimension], nowMs);
    const lowest = firstBinOf(index);
    for (let below = index - 1; below >= lowest; below--) {
      const bin = errors.bins[below];
      if (bin !== undefined) return fadedQuantile(bin.quantile, pooled, nowMs);
    }
    return pooled;
  }
}

function noBins(): undefined[] {
  return Array.from({ length: BINS }, () => undefined);
}
