import type { DefaultsSection, TenantSection } from "./configuration-file.ts";
import type { Part } from "./document-part.ts";
import { child } from "./document-part.ts";

/** A tenant with what it has from `defaults`; it was found to have models and a class. */
export type WholeTenant = TenantSection & Required<Pick<TenantSection, "models" | "class">>;

/**
 * Gives a tenant what it does not say itself. A mapping is inherited key by key, so that a tenant with a
 * `limits` of its own keeps the default limits that it does not name; a list is replaced.
 */
export function inherit(tenant: TenantSection, defaults: DefaultsSection = {}): TenantSection {
  const { share, limits, cache, timeouts } = defaults;
  return {
    ...defaults,
    ...tenant,
    ...((share ?? tenant.share) && { share: { ...share, ...tenant.share } }),
    ...((limits ?? tenant.limits) && { limits: { ...limits, ...tenant.limits } }),
    ...((cache ?? tenant.cache) && { cache: { ...cache, ...tenant.cache } }),
    ...((timeouts ?? tenant.timeouts) && { timeouts: { ...timeouts, ...tenant.timeouts } }),
  };
}

/** Finds what holds for a tenant of a document as it is written, and where that stands. */
export function inherited(tenant: Part, defaults: Part, ...names: readonly string[]): Part {
  const [own, common] = [tenant, defaults].map((part) => names.reduce(child, part));
  return own?.value === undefined && common?.value !== undefined ? common : (own ?? tenant);
}
