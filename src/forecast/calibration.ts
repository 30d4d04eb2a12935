import { assert } from "../base/assert.ts";
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
}

/** A forecast of the past, with the bound that was given for it. */
export interface PastForecast extends CalibrationContext {
  readonly predictedMs: number;
  readonly boundMs: number;
}

/** How often bounds of one kind were exceeded; since the start. */
export interface Coverage {
  samples: number;
  exceeded: number;
}

export interface BinCoverage extends Readonly<Coverage> {
  readonly profile: string;
  readonly dimension: ForecastDimension;
  /** Where predicted / target lies: [0, ¼), [¼, ½), [½, 1), [1, ∞). */
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
  readonly bins: (BinState | undefined)[];
}

export interface CalibrationState {
  /** The longest silent one first. */
  readonly byProfile: Map<string, Record<ForecastDimension, ProfileErrors>>;
  readonly bias: Record<ForecastDimension, TenantBiasState>;
}

export interface CalibrationOptions {
  /** How often a bound may be exceeded. */
  readonly exceedanceRatio: number;
  /** Added to every forecast of TTFT: among the shortest ones, ratios say nothing. */
  readonly ttftFloorMs: number;
  readonly profilesMax: number;
  readonly tenantsMax: number;
}

const BINS = 4;

const DEFAULT_OPTIONS: CalibrationOptions = {
  exceedanceRatio: 0.003,
  ttftFloorMs: 20,
  profilesMax: 64,
  tenantsMax: 1024,
};

const PRIOR_DEVIATIONS = 2.75;
/** Before any sample. A TTFT hangs on a queue; a TPOT is a mean of many steps. */
const PRIORS: Readonly<Record<ForecastDimension, ResidualQuantile>> = {
  ttft: { mean: 0, variance: 0.2 ** 2, deviations: PRIOR_DEVIATIONS },
  tpot: { mean: 0, variance: 0.08 ** 2, deviations: PRIOR_DEVIATIONS },
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
  readonly #floorMs: Readonly<Record<ForecastDimension, number>>;
  readonly #bias: Readonly<Record<ForecastDimension, TenantBias>>;

  constructor(
    options: Partial<CalibrationOptions> = {},
    state: CalibrationState = { byProfile: new Map(), bias: { ttft: new Map(), tpot: new Map() } },
  ) {
    this.#options = { ...DEFAULT_OPTIONS, ...options };
    this.state = state;
    const { ttftFloorMs, tenantsMax } = this.#options;
    this.#floorMs = { ttft: ttftFloorMs, tpot: 0 };
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
    const bin = errors?.bins[binOf(predictedMs, context.targetMs)];
    const sharedLog =
      bin === undefined || isSilent(bin.quantile, nowMs)
        ? logQuantile(this.#quantileOf(dimension, errors?.pooled, bin?.quantile, nowMs))
        : logQuantile(bin.quantile);
    const ownLog = this.#bias[dimension].at(context.tenantId, nowMs);
    return (predictedMs + this.#floorMs[dimension]) * Math.exp(sharedLog + ownLog);
  }

  /** Learns from a request whose actual value is known. */
  learn(
    dimension: ForecastDimension,
    sample: PastForecast & { readonly actualMs: number },
    nowMs: number,
  ): void {
    const { actualMs, boundMs, predictedMs, tenantId } = sample;
    const { exceedanceRatio, profilesMax } = this.#options;
    const errors = renewEntry(this.state.byProfile, sample.profile, profilesMax, () => ({
      ttft: { pooled: quantileFrom(PRIORS.ttft, nowMs), bins: noBins() },
      tpot: { pooled: quantileFrom(PRIORS.tpot, nowMs), bins: noBins() },
    }))[dimension];
    fadeQuantile(errors.pooled, PRIORS[dimension], nowMs);
    const bin = (errors.bins[binOf(predictedMs, sample.targetMs)] ??= {
      quantile: quantileFrom(errors.pooled, nowMs),
      coverage: { samples: 0, exceeded: 0 },
    });
    fadeQuantile(bin.quantile, errors.pooled, nowMs);
    bin.coverage.samples += 1;
    if (actualMs > boundMs) bin.coverage.exceeded += 1;

    const bias = this.#bias[dimension];
    const residual = Math.log(actualMs / (predictedMs + this.#floorMs[dimension]));
    const sharedResidual = residual - bias.at(tenantId, nowMs);
    bias.learn(tenantId, residual - bin.quantile.mean, nowMs);
    learnResidual(bin.quantile, sharedResidual, exceedanceRatio, nowMs);
    learnResidual(errors.pooled, sharedResidual, exceedanceRatio, nowMs);
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

  /** Where a bin says nothing, or nothing of late. */
  #quantileOf(
    dimension: ForecastDimension,
    pooled: ResidualQuantileState | undefined,
    bin: ResidualQuantileState | undefined,
    nowMs: number,
  ): ResidualQuantile {
    const prior = PRIORS[dimension];
    const shared = pooled === undefined ? prior : fadedQuantile(pooled, prior, nowMs);
    return bin === undefined ? shared : fadedQuantile(bin, shared, nowMs);
  }
}

function noBins(): undefined[] {
  return Array.from({ length: BINS }, () => undefined);
}

function binOf(predictedMs: number, targetMs: number): number {
  const ratio = predictedMs / targetMs;
  if (ratio < 0.25) return 0;
  if (ratio < 0.5) return 1;
  return ratio < 1 ? 2 : 3;
}
