import { assert } from "../base/assert.ts";
import { renewEntry } from "./bounded-map.ts";
import {
  initialQuantile,
  learnResidual,
  logQuantileAt,
  type QuantileOptions,
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

export interface CalibrationState {
  /** By profile, the longest silent one first; of each dimension one entry a bin. */
  readonly byProfile: Map<string, Record<ForecastDimension, BinState[]>>;
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

/** Before any sample: of log(actual / predicted). A TTFT hangs on a queue, a TPOT is a mean of many steps. */
const PRIORS: Readonly<Record<ForecastDimension, QuantileOptions["prior"]>> = {
  ttft: { mean: 0, deviation: 0.1 },
  tpot: { mean: 0, deviation: 0.05 },
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
  readonly #quantileOptions: Readonly<Record<ForecastDimension, QuantileOptions>>;
  readonly #floorMs: Readonly<Record<ForecastDimension, number>>;
  readonly #bias: Readonly<Record<ForecastDimension, TenantBias>>;

  constructor(
    options: Partial<CalibrationOptions> = {},
    state: CalibrationState = { byProfile: new Map(), bias: { ttft: new Map(), tpot: new Map() } },
  ) {
    this.#options = { ...DEFAULT_OPTIONS, ...options };
    this.state = state;
    const { exceedanceRatio, ttftFloorMs, tenantsMax } = this.#options;
    this.#quantileOptions = {
      ttft: { exceedanceRatio, prior: PRIORS.ttft },
      tpot: { exceedanceRatio, prior: PRIORS.tpot },
    };
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
    const bins = this.state.byProfile.get(context.profile)?.[dimension];
    const quantile = bins?.[binOf(predictedMs, context.targetMs)]?.quantile;
    const options = this.#quantileOptions[dimension];
    const sharedLog = logQuantileAt(quantile ?? initialQuantile(options, nowMs), options, nowMs);
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
    const { quantile, coverage } = this.#bin(dimension, sample, nowMs);
    coverage.samples += 1;
    if (actualMs > boundMs) coverage.exceeded += 1;
    const bias = this.#bias[dimension];
    const residual = Math.log(actualMs / (predictedMs + this.#floorMs[dimension]));
    const ownLog = bias.at(tenantId, nowMs);
    bias.learn(tenantId, residual - quantile.mean, nowMs);
    learnResidual(quantile, residual - ownLog, this.#quantileOptions[dimension], nowMs);
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
        dimensions[dimension]
          .map(({ coverage }, bin) => ({ profile, dimension, bin, ...coverage }))
          .filter(({ samples }) => samples > 0),
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

  #bin(dimension: ForecastDimension, forecast: PastForecast, nowMs: number): BinState {
    const { byProfile } = this.state;
    const bins = renewEntry(byProfile, forecast.profile, this.#options.profilesMax, () => ({
      ttft: this.#newBins("ttft", nowMs),
      tpot: this.#newBins("tpot", nowMs),
    }));
    const bin = bins[dimension][binOf(forecast.predictedMs, forecast.targetMs)];
    assert(bin !== undefined, "every ratio has a bin");
    return bin;
  }

  #newBins(dimension: ForecastDimension, nowMs: number): BinState[] {
    return Array.from({ length: BINS }, () => ({
      quantile: initialQuantile(this.#quantileOptions[dimension], nowMs),
      coverage: { samples: 0, exceeded: 0 },
    }));
  }
}

function binOf(predictedMs: number, targetMs: number): number {
  const ratio = predictedMs / targetMs;
  if (ratio < 0.25) return 0;
  if (ratio < 0.5) return 1;
  return ratio < 1 ? 2 : 3;
}
