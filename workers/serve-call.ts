import type { Outcome } from "../src/pool/offer.ts";
import type { ReplicaId } from "../src/protocol/ids.ts";
import type { UpstreamFault } from "../src/protocol/upstream-problem.ts";
import type { HeldLease, HeldPermit } from "./acquire.ts";
import { acquireLease, acquirePermit } from "./acquire.ts";
import type { Call } from "./call.ts";
import type { StopReason } from "./call-watch.ts";
import type { Env } from "./env.ts";
import { GatewayError } from "./gateway-error.ts";
import type { Reception, ReceiveAnswer } from "./reception.ts";
import { askReplica } from "./replica-request.ts";
import type { Settings } from "./settings.ts";

/** Replicas that one call may be given to, all of them before its client has seen anything. */
const ATTEMPTS_MAX = 2;

/** A call on its way, with what it needs at every attempt. */
interface Serving {
  readonly call: Call;
  readonly receive: ReceiveAnswer;
  readonly env: Env;
  readonly settings: Settings;
  readonly permit: HeldPermit;
}

/** What an earlier attempt came to. */
interface Failures {
  readonly replicaIds: readonly ReplicaId[];
  readonly fault: UpstreamFault;
}

/**
 * Takes a call from its tenant's permit to its answer's end. When a replica fails before the client
 * has seen anything, it is left out and the call offered once more with what is left of its time.
 *
 * Throws a `GatewayError` when no answer has begun. Whatever happens, permit and lease are given
 * back, and before the client can see the end: its next request must not find its own place taken.
 */
export async function serveCall(
  call: Call,
  receive: ReceiveAnswer,
  edge: { readonly env: Env; readonly settings: Settings },
): Promise<void> {
  const permit = await acquirePermit(call, edge.env);
  try {
    await tryReplicas({ call, receive, permit, ...edge });
  } finally {
    await permit.release();
  }
}

async function tryReplicas(serving: Serving, before?: Failures): Promise<void> {
  const lease = await acquireAnother(serving, before);
  const fault = await tryReplica(serving, lease);
  if (fault === undefined) return;
  const replicaIds = [...(before?.replicaIds ?? []), lease.dispatch.replicaId];
  if (!fault.isRetryable || replicaIds.length >= ATTEMPTS_MAX)
    throw new GatewayError(fault.problem);
  await tryReplicas(serving, { replicaIds, fault });
}

/** That there is no other replica is true, but not why the client gets no answer. */
async function acquireAnother({ call, env }: Serving, before?: Failures): Promise<HeldLease> {
  try {
    return await acquireLease(call, before?.replicaIds ?? [], env);
  } catch (error) {
    if (before === undefined || !(error instanceof GatewayError)) throw error;
    throw new GatewayError(call.watch.problem ?? before.fault.problem);
  }
}

/** Returns why the replica gave no answer, or nothing once the client has seen its answer's end. */
async function tryReplica(
  { call, receive, settings, permit }: Serving,
  lease: HeldLease,
): Promise<UpstreamFault | undefined> {
  const { record, watch } = call;
  record.attempts += 1;
  record.replicaId = lease.dispatch.replicaId;
  record.dispatchedAtMs = Date.now();
  let outcome: Outcome = { kind: "abandoned" };
  try {
    const answer = await askReplica(call, lease.dispatch, settings);
    const reception = answer.kind === "answered" ? await receive(answer.body) : answer;
    outcome = outcomeOf(call, reception);
    if (reception.kind === "unusable") {
      const { problem } = watch;
      if (problem === undefined) return reception.fault;
      return { kind: "failure", problem, isRetryable: false };
    }
    const givenBack = Promise.all([lease.settle(outcome), permit.release()]);
    await reception.deliver();
    await givenBack;
    return undefined;
  } finally {
    await lease.settle(outcome);
  }
}

function outcomeOf({ record, watch }: Call, reception: Reception): Outcome {
  const { dispatchedAtMs, stream, usage } = record;
  const firstTokenAtMs = stream?.firstTokenAtMs;
  return {
    kind: outcomeKindOf(reception, watch.reason),
    ...(usage !== undefined && {
      promptTokens: usage.prompt_tokens,
      cachedTokens: usage.prompt_tokens_details?.cached_tokens ?? 0,
      outputTokens: usage.completion_tokens,
    }),
    ...(firstTokenAtMs !== undefined &&
      dispatchedAtMs !== undefined && { firstTokenAfterMs: firstTokenAtMs - dispatchedAtMs }),
  };
}

function outcomeKindOf(reception: Reception, stopReason: StopReason | undefined): Outcome["kind"] {
  if (reception.kind === "complete") return "completed";
  if (stopReason === "client-gone") return "client-gone";
  const isRefused = reception.kind === "unusable" && reception.fault.kind !== "failure";
  return isRefused ? "upstream-refused" : "upstream-failed";
}
