import { assert } from "../../src/base/assert.ts";
import type { RequestSize } from "./arrival.ts";
import { expectedRequestPrice } from "./request-sampler.ts";
import { expectedSessionPrice } from "./sessions.ts";
import { SIX_TENANTS } from "./tenant-mix.ts";
import type { TenantProfile } from "./tenant-profile.ts";
import type { TenantTraffic, Window, Workload } from "./workload.ts";

/**
 * What a load of 1 means: the caller's price of a request and how much of it the pool earns per second.
 * Both in the same unit, such as GPU-ms; 1.0× is what the caller measured to be sustainable.
 */
export interface LoadBasis {
  readonly price: (size: RequestSize) => number;
  readonly capacityPerSecond: number;
}

/** A load over all tenants, as a part of the capacity. */
export interface SteadyOptions {
  readonly loadRatio: number;
  readonly profiles?: readonly TenantProfile[];
}

/** Every tenant asks for its weight's part of the load. */
export function steady(basis: LoadBasis, options: SteadyOptions): Workload {
  const { loadRatio, profiles = SIX_TENANTS } = options;
  const weightSum = profiles.reduce((sum, { share }) => sum + share.weight, 0);
  return {
    tenants: profiles.map((profile) => {
      const perSecond = (loadRatio * basis.capacityPerSecond * profile.share.weight) / weightSum;
      return { profile, startsPerSecond: perSecond / priceOfStart(basis, profile), rateShapes: [] };
    }),
  };
}

/**
 * Requests a millisecond that each tenant's weight's part of the capacity carries, by name: what somebody
 * who knew all prices would limit it to. Of tenants that have no sessions.
 */
export function requestRates(
  basis: LoadBasis,
  profiles: readonly TenantProfile[],
): Map<string, number> {
  const { tenants } = steady(basis, { loadRatio: 1, profiles });
  return new Map(
    tenants.map(({ profile, startsPerSecond }) => [profile.name, startsPerSecond / 1000]),
  );
}

/** A steady load, and the tenant for whom something is different. */
type TenantOptions = SteadyOptions & { readonly tenant: string };

/** All is steady but for one tenant, who asks for `factor` times its part all the time. */
export function noisyNeighbour(
  basis: LoadBasis,
  options: TenantOptions & { readonly factor: number },
): Workload {
  return steadyBut(basis, options, (traffic) => ({
    ...traffic,
    startsPerSecond: traffic.startsPerSecond * options.factor,
  }));
}

/** All is steady but for one tenant, who asks for `factor` times its part in a window. */
export function burst(
  basis: LoadBasis,
  options: TenantOptions & Window & { readonly factor: number },
): Workload {
  const { fromMs, untilMs, factor } = options;
  return steadyBut(basis, options, (traffic) => ({
    ...traffic,
    rateShapes: [...traffic.rateShapes, { kind: "window", fromMs, untilMs, factor }],
  }));
}

const CHANGED_PROMPT_TOKENS_MAX = 32_000;

/**
 * One tenant keeps its request rate and sends prompts `promptFactor` times as long from an instant on.
 * A limit on requests per minute does not notice.
 */
export function priceMixDrift(
  basis: LoadBasis,
  options: TenantOptions & { readonly fromMs: number; readonly promptFactor: number },
): Workload {
  const { fromMs, promptFactor: factor } = options;
  return steadyBut(basis, options, (traffic) => ({
    ...traffic,
    promptChange: { fromMs, factor, promptTokensMax: CHANGED_PROMPT_TOKENS_MAX },
  }));
}

/** One tenant's answers are `factor` times as long in a window: a model that does not find an end. */
export function runawayAnswers(
  basis: LoadBasis,
  options: TenantOptions & Window & { readonly factor: number },
): Workload {
  const { fromMs, untilMs, factor } = options;
  return steadyBut(basis, options, (traffic) => ({
    ...traffic,
    answerChange: { fromMs, untilMs, factor },
  }));
}

/** All of one tenant's requests fail in a window, at whatever replica, and at once. */
export function poisoned(basis: LoadBasis, options: TenantOptions & Window): Workload {
  const { fromMs, untilMs } = options;
  return steadyBut(basis, options, (traffic) => ({ ...traffic, poison: { fromMs, untilMs } }));
}

/** The mean price of what begins with one arrival: of a request, or of a whole session. */
export function priceOfStart({ price }: LoadBasis, profile: TenantProfile): number {
  const { sessions } = profile;
  const mean =
    sessions === undefined
      ? expectedRequestPrice(profile, price)
      : expectedSessionPrice(profile, sessions, price);
  assert(mean > 0, "a request has a price");
  return mean;
}

function steadyBut(
  basis: LoadBasis,
  options: TenantOptions,
  change: (traffic: TenantTraffic) => TenantTraffic,
): Workload {
  const { tenants } = steady(basis, options);
  const isThere = tenants.some(({ profile }) => profile.name === options.tenant);
  assert(isThere, `a workload has the tenant ${options.tenant}`);
  return {
    tenants: tenants.map((traffic) =>
      traffic.profile.name === options.tenant ? change(traffic) : traffic,
    ),
  };
}
