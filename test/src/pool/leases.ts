import type { Lease } from "../../../src/pool/lease-book.ts";
import { LeaseId, ModelId, RequestId, TenantId } from "../../../src/protocol/ids.ts";
import { replicaIdOf } from "../../support/replica-builders.ts";

const TENANT = TenantId.parse("tenant-a");
const PAST = { profile: "p", tenantId: TENANT, targetMs: 1_000, predictedMs: 100, boundMs: 150 };

/** A lease of a request of 100 prompt tokens, given at instant 0 on the first replica. */
export function aLease(name: string, change: Partial<Lease> = {}): Lease {
  return {
    leaseId: LeaseId.parse(name),
    requestId: RequestId.parse(name),
    tenantId: TENANT,
    replicaModelId: undefined,
    modelId: ModelId.parse("sluice-tiny"),
    replicaId: replicaIdOf(0),
    dispatchNumber: 1,
    promptBytes: 400,
    promptTokens: 100,
    emittedTokens: 0,
    foundTokens: 0,
    cachedTokens: 0,
    outputTokens: 50,
    outputTokensHigh: 100,
    operation: "chat",
    isStreamed: true,
    outputTokensMax: undefined,
    costMs: 1_000,
    chargedMs: 1_000,
    tokensSoFar: 1,
    account: { tenantId: TENANT, weight: 1, band: 0, isInProfile: true },
    speedRatio: 1,
    foreseen: { ttft: PAST, tpot: { ...PAST, keptMs: 0 } },
    spentMs: 0,
    dispatchedAtMs: 0,
    expiresAtMs: 1_000,
    isLost: false,
    isHedge: false,
    isCharged: true,
    ...change,
  };
}
