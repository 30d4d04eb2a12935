import { assert } from "../base/assert.ts";
import { renewEntry } from "./bounded-map.ts";

/** How far a tenant's forecasts are off beyond everybody's, and how much that is based on. */
interface TenantBiasEntry {
  /** Mean of the excess of log(actual / predicted). */
  mean: number;
  /** In samples; fades. */
  weight: number;
  updatedAtMs: number;
}

/** By tenant; the longest silent one first. */
export type TenantBiasState = Map<string, TenantBiasEntry>;

/** What a tenant has to show to be believed by half. */
const SHRINKAGE_SAMPLES = 50;
const WEIGHT_MAX = 200;
/** Fading of what is known of a tenant that sends nothing. */
const FADING_MS = 20_000;
/** No tenant is corrected by more than a factor of 1.5, either way. */
const LOG_MAX = Math.log(1.5);

/**
 * A tenant's own correction to forecasts that all share: shrunk towards none by how little is known, bounded,
 * and forgotten in silence, so that a tenant that was refused because of it is tried again.
 */
export class TenantBias {
  readonly state: TenantBiasState;
  readonly #tenantsMax: number;

  constructor(options: { readonly tenantsMax: number }, state: TenantBiasState = new Map()) {
    this.#tenantsMax = options.tenantsMax;
    this.state = state;
  }

  /** What to add to the log of a forecast. */
  at(tenantId: string, nowMs: number): number {
    const entry = this.state.get(tenantId);
    if (entry === undefined) return 0;
    const weight = weightAt(entry, nowMs);
    const shrunk = (entry.mean * weight) / (weight + SHRINKAGE_SAMPLES);
    return Math.min(LOG_MAX, Math.max(-LOG_MAX, shrunk));
  }

  /** Learns by how much more, in logs, than everybody's this forecast was off. */
  learn(tenantId: string, excess: number, nowMs: number): void {
    const entry = renewEntry(this.state, tenantId, this.#tenantsMax, () => ({
      mean: 0,
      weight: 0,
      updatedAtMs: nowMs,
    }));
    const bounded = Math.min(2 * LOG_MAX, Math.max(-2 * LOG_MAX, excess));
    entry.weight = Math.min(WEIGHT_MAX, weightAt(entry, nowMs) + 1);
    entry.mean += (bounded - entry.mean) / entry.weight;
    entry.updatedAtMs = Math.max(entry.updatedAtMs, nowMs);
  }

  checkInvariants(): void {
    assert(this.state.size <= this.#tenantsMax, "tenants are bounded");
    for (const { mean, weight } of this.state.values()) {
      assert(Math.abs(mean) <= 2 * LOG_MAX + 1e-9, "a tenant's bias is bounded");
      assert(weight >= 0 && weight <= WEIGHT_MAX, "a tenant's past is bounded");
    }
  }
}

function weightAt({ weight, updatedAtMs }: TenantBiasEntry, nowMs: number): number {
  const silentMs = Math.max(0, nowMs - updatedAtMs);
  return weight * Math.exp(-silentMs / FADING_MS);
}
