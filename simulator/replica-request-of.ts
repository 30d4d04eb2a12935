import { paceMs } from "../src/slo/deadlines.ts";
import { chainOf } from "./prompt-shape.ts";
import type { ReplicaRequest } from "./replica-request.ts";
import type { Attempt } from "./simulated-call.ts";

/** An attempt as it is sent to its replica; not every gateway tells by when a first token is due. */
export function replicaRequestOf(
  attempt: Attempt,
  promptTokenIds: readonly number[],
  { nowMs, tellsDeadlines }: { readonly nowMs: number; readonly tellsDeadlines: boolean },
): ReplicaRequest {
  const { call, dispatch, attemptId, answerTokenIds } = attempt;
  const { tenant, spec, index } = call.options;
  const tbtTargetMs = paceMs(tenant.targets);
  const deadlineAtMs = nowMs + dispatch.firstTokenBudgetMs;
  const asked = { id: attemptId, tenant: tenant.tenantId, promptTokenIds, answerTokenIds };
  const poison = spec.isPoisonous === true && { isPoisonous: true };
  // A server that is not ours is sent nothing of ours.
  if (dispatch.plain !== undefined) return { ...asked, ...poison };
  return {
    ...asked,
    ...poison,
    dispatch: dispatch.dispatch,
    promptChain: chainOf(spec, index),
    ...(tellsDeadlines && deadlineAtMs < Infinity && { firstTokenDeadlineAtMs: deadlineAtMs }),
    ...(tbtTargetMs < Infinity && { tbtTargetMs }),
  };
}
