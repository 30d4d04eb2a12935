import { assert } from "../base/assert.ts";
import { renewEntry } from "./bounded-map.ts";
import { addLength, emptyHistogram, fadeTo, type LengthHistogram } from "./length-histogram.ts";
import { SurvivalCurve } from "./survival-curve.ts";

/** Whose outputs. */
export interface OutputKey {
  readonly tenantId: string;
  readonly modelId: string;
}

/** What is believed of an output's length, its limit applied. */
export interface ExpectedOutput {
  readonly meanTokens: number;
  readonly medianTokens: number;
  readonly p90Tokens: number;
}

export interface OutputLengthsOptions {
  /** A length counts half as much after this. */
  readonly halfLifeMs: number;
  /** As many outputs as this a tenant's or model's past counts for at most. */
  readonly weightMax: number;
  /** So many outputs of its own a tenant needs to be believed as much as its model. */
  readonly priorWeight: number;
  readonly modelsMax: number;
  /** Of one model. */
  readonly tenantsMax: number;
}

/** What is remembered of one model, by the tenants that use it; the longest silent one first. */
interface ModelLengths {
  readonly all: LengthHistogram;
  readonly byTenant: Map<string, LengthHistogram>;
}

/** By model; the longest silent one first. */
export interface OutputLengthsState {
  readonly byModel: Map<string, ModelLengths>;
}

interface CachedCurve {
  readonly curve: SurvivalCurve;
  readonly prior: SurvivalCurve;
  readonly learned: number;
}

const DEFAULT_OPTIONS: OutputLengthsOptions = {
  halfLifeMs: 600_000,
  weightMax: 1000,
  priorWeight: 8,
  modelsMax: 16,
  tenantsMax: 256,
};

/**
 * Learns how long the outputs of each tenant become on each model.
 *
 * Prompts say next to nothing of it, tenants a lot; and how long an output is already says more than
 * either. A tenant is believed by as many outputs as it has sent, its model for the rest, and a prior
 * where there is nothing. Curves are kept until the next output is learned.
 */
export class OutputLengths {
  readonly state: OutputLengthsState;
  readonly #options: OutputLengthsOptions;
  readonly #prior = SurvivalCurve.prior();
  readonly #curves = new WeakMap<LengthHistogram, CachedCurve>();

  constructor(
    options: Partial<OutputLengthsOptions> = {},
    state: OutputLengthsState = { byModel: new Map() },
  ) {
    this.#options = { ...DEFAULT_OPTIONS, ...options };
    this.state = state;
  }

  /**
   * Learns one output. `isCensored` says that something else than the model ended it (a limit, the
   * client, a failure), so that it would have become at least that long.
   */
  learn(
    { tenantId, modelId }: OutputKey,
    outputTokens: number,
    nowMs: number,
    { isCensored }: { readonly isCensored: boolean },
  ): void {
    const { modelsMax, tenantsMax } = this.#options;
    const model = renewEntry(this.state.byModel, modelId, modelsMax, () => ({
      all: emptyHistogram(nowMs),
      byTenant: new Map(),
    }));
    const tenant = renewEntry(model.byTenant, tenantId, tenantsMax, () => emptyHistogram(nowMs));
    const length = { tokens: outputTokens, isCut: isCensored };
    addLength(tenant, length, { ...this.#options, nowMs });
    addLength(model.all, length, { ...this.#options, nowMs });
  }

  /** A tenant's outputs are not what they were: its past counts for no more than what others' tells of it. */
  doubt(tenantId: string): void {
    for (const { byTenant } of this.state.byModel.values()) {
      const tenant = byTenant.get(tenantId);
      if (tenant !== undefined) fadeTo(tenant, this.#options.priorWeight);
    }
  }

  /** What an output that has not begun is expected to become. */
  expected(key: OutputKey, outputTokensMax = Infinity): ExpectedOutput {
    const curve = this.curveOf(key);
    return {
      meanTokens: Math.max(1, curve.meanUpTo(outputTokensMax)),
      medianTokens: Math.min(curve.medianTokens, outputTokensMax),
      p90Tokens: Math.min(curve.p90Tokens, outputTokensMax),
    };
  }

  /** Tokens still to come, in the mean, of an output that has so many already; 0 at its limit. */
  residualTokens(key: OutputKey, soFarTokens: number, outputTokensMax = Infinity): number {
    return this.curveOf(key).residualTokens(soFarTokens, outputTokensMax);
  }

  /** The curve itself, for who asks much of it. Valid until the next `learn`. */
  curveOf({ tenantId, modelId }: OutputKey): SurvivalCurve {
    const model = this.state.byModel.get(modelId);
    if (model === undefined) return this.#prior;
    const modelCurve = this.#cached(model.all, this.#prior);
    const tenant = model.byTenant.get(tenantId);
    return tenant === undefined ? modelCurve : this.#cached(tenant, modelCurve);
  }

  checkInvariants(): void {
    const { modelsMax, tenantsMax, weightMax } = this.#options;
    assert(this.state.byModel.size <= modelsMax, "models are bounded");
    for (const { all, byTenant } of this.state.byModel.values()) {
      assert(byTenant.size <= tenantsMax, "tenants are bounded");
      for (const { ended, cut, weight } of [all, ...byTenant.values()]) {
        const sum = [...ended, ...cut].reduce((total, count) => total + count, 0);
        assert(Math.abs(sum - weight) <= 1e-6 * weight, "a histogram weighs what its buckets do");
        assert(weight <= weightMax * (1 + 1e-9), "the past is bounded");
      }
    }
  }

  #cached(histogram: LengthHistogram, prior: SurvivalCurve): SurvivalCurve {
    const cached = this.#curves.get(histogram);
    if (cached?.learned === histogram.learned && cached.prior === prior) return cached.curve;
    const curve = SurvivalCurve.of(histogram, prior, this.#options.priorWeight);
    this.#curves.set(histogram, { curve, prior, learned: histogram.learned });
    return curve;
  }
}
