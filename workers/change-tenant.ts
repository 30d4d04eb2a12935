import type { TenantId } from "../src/protocol/ids.ts";
import type { Problem } from "../src/protocol/errors.ts";
import { toRow } from "../src/tenants/configuration-rows.ts";
import type { LiveTenant } from "../src/tenants/live-configuration.ts";
import { mergePatch, settingsOfTenant, toTenant } from "../src/tenants/tenant-settings.ts";
import type { Applied, CommitWish, StagedChange } from "./staged-change.ts";
import type { StoredConfiguration } from "./stored-configuration.ts";

/** What is to become of one tenant. Settings travel as JSON text, and are checked where they are used. */
export type TenantChange =
  | { readonly kind: "add"; readonly tenantId: TenantId; readonly settings: string }
  /** Members replace those of the same name, `null` takes one away. */
  | { readonly kind: "change"; readonly tenantId: TenantId; readonly settings: string }
  | { readonly kind: "remove"; readonly tenantId: TenantId };

export type TenantVerdict =
  | Applied
  | { readonly kind: "unconfigured" }
  | { readonly kind: "unknown-tenant" }
  | { readonly kind: "name-taken" }
  | { readonly kind: "refused"; readonly problem: Problem };

/** Changes one tenant of the live configuration, which makes a version of its own. */
export function changeTenant(
  change: TenantChange,
  { configuration, stage }: { configuration: StoredConfiguration; stage: StagedChange },
  wish: Omit<CommitWish, "action">,
  nowMs: number,
): TenantVerdict {
  const frame = configuration.frame();
  if (frame === undefined) return { kind: "unconfigured" };
  const { tenantId } = change;
  const before = tenantOf(configuration, tenantId);
  if (change.kind === "add" && before !== undefined) return { kind: "name-taken" };
  if (change.kind !== "add" && before === undefined) return { kind: "unknown-tenant" };
  if (change.kind === "remove") {
    stage.remove("tenant", tenantId);
  } else {
    const sent = Object(JSON.parse(change.settings));
    const said = before === undefined ? sent : mergePatch(settingsOfTenant(before), sent);
    const tenant = toTenant(tenantId, said, frame, before);
    if (tenant.kind === "invalid") return { kind: "refused", problem: tenant.problem };
    stage.add([toRow({ kind: "tenant", thing: tenant.value })]);
  }
  return stage.commit({ ...wish, action: `${change.kind} tenant ${tenantId}` }, nowMs);
}

function tenantOf(configuration: StoredConfiguration, tenantId: TenantId): LiveTenant | undefined {
  const entry = configuration.find("tenant", tenantId)?.entry;
  return entry?.kind === "tenant" ? entry.thing : undefined;
}
