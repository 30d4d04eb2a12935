import type { OverloadLadder } from "../src/tenants/overload-step.ts";
import type { ModelId, TenantId } from "../src/protocol/ids.ts";
import type { SloTargets } from "../src/slo/targets.ts";
import type { TenantShare } from "../src/tenants/share.ts";

/** A tenant as a gateway's configuration has it. */
export interface SimulatedTenant {
  readonly tenantId: TenantId;
  readonly modelId: ModelId;
  readonly share: TenantShare;
  readonly targets: SloTargets;
  readonly isStreamed: boolean;
  readonly overload?: OverloadLadder;
}
