import type { WaitingRequest } from "../../../src/admission/waiting-request.ts";
import { RequestId, TenantId } from "../../../src/protocol/ids.ts";

/** A request in profile of tenant `a` that came at 0 and costs 10 GPU-ms, but for what is changed. */
export function waiting(
  requestId: string,
  changes: Partial<Omit<WaitingRequest, "requestId" | "tenantId">> & { tenantId?: string } = {},
): WaitingRequest {
  const { tenantId = "a", ...others } = changes;
  return {
    requestId: RequestId.parse(requestId),
    tenantId: TenantId.parse(tenantId),
    weight: 1,
    band: 0,
    isInProfile: true,
    costMs: 10,
    sinceMs: 0,
    deadlineAtMs: 1_000,
    dropAtMs: 1_000,
    ...others,
  };
}
