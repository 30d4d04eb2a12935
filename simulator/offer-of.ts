import type { Offer } from "../src/pool/offer.ts";
import { chainOf, promptBytesOf, routeOf } from "./prompt-shape.ts";
import type { SimulatedCall } from "./simulated-call.ts";

/** A call as it asks for a replica, at first or again. */
export function offerOf(call: SimulatedCall, nowMs: number): Offer {
  const { spec, index, tenant, arrivedAtMs } = call.options;
  const chain = chainOf(spec, index);
  return {
    requestId: call.requestId,
    tenantId: tenant.tenantId,
    modelId: tenant.modelId,
    share: tenant.share,
    ...(tenant.overload !== undefined && { overload: tenant.overload }),
    promptBytes: promptBytesOf(spec.promptTokens),
    ...(spec.outputTokensMax !== undefined && { outputTokensMax: spec.outputTokensMax }),
    targets: tenant.targets,
    isStreamed: tenant.isStreamed,
    elapsedMs: nowMs - arrivedAtMs,
    chain,
    route: routeOf(spec, index, chain),
    excludedReplicaIds: [...call.failedReplicaIds],
    isRetry: call.dispatches > 0,
  };
}
