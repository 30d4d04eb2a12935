import { seededRandom } from "../../../src/base/random.ts";
import { RequestId } from "../../../src/protocol/ids.ts";
import type { Policy, PolicyReplica, PolicyRequest } from "../../../simulator/policies/policy.ts";

/** A replica that is idle, but for what a test says. */
export function replica(
  replicaIndex: number,
  facts: Partial<Omit<PolicyReplica, "replicaIndex">> = {},
): PolicyReplica {
  return {
    replicaIndex,
    outstanding: 0,
    runningRequests: 0,
    queuedRequests: 0,
    usedKvRatio: 0,
    ...facts,
  };
}

let requests = 0;

/** A request of its own, with no prefix, but for what a test says. */
export function request(
  facts: Partial<Omit<PolicyRequest, "requestId">> & { readonly requestId?: string } = {},
): PolicyRequest {
  requests += 1;
  const { requestId = `request-${requests}`, ...others } = facts;
  return {
    requestId: RequestId.parse(requestId),
    tenantId: "tenant",
    promptTokens: 1_000,
    route: "",
    prefixes: [],
    targets: {},
    arrivedAtMs: 0,
    ...others,
  };
}

/** Asks a policy with a seed of its own, and returns the chosen index, or `undefined` if it rejects. */
export function chooser(policy: Policy) {
  const random = seededRandom(3);
  return (
    replicas: readonly PolicyReplica[],
    asked: PolicyRequest = request(),
    nowMs = 0,
  ): number | undefined => {
    const verdict = policy.choose(asked, replicas, { nowMs, random });
    return verdict.kind === "dispatch" ? verdict.replicaIndex : undefined;
  };
}
