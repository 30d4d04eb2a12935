import { SIX_TENANTS } from "../../../simulator/workloads/tenant-mix.ts";
import type { TenantProfile } from "../../../simulator/workloads/tenant-profile.ts";

/** One of the six tenants. */
export function tenantNamed(name: string): TenantProfile {
  const profile = SIX_TENANTS.find((tenant) => tenant.name === name);
  if (profile === undefined) throw new Error(`Expected one of the six tenants, found ${name}`);
  return profile;
}
