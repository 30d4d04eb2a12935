import type { Outcome } from "../src/pool/offer.ts";
import type { ReplicaId } from "../src/protocol/ids.ts";
import type { UpstreamFault } from "../src/protocol/upstream-problem.ts";
import type { HeldLease, HeldPermit } from "./acquire.ts";
import { acquireLease, acquirePermit } from "./acquire.ts";
import { outcomeOf } from "./attempt-outcome.ts";
import type { Call } from "./call.ts";
import { startedAtMs } from "./call.ts";
import type { Env } from "./env.ts";
import { GatewayError } from "./gateway-error.ts";
import type { ReceiveAnswer } from "./reception.ts";
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

/** How an attempt ended: with an answer, with none, or with the slot taken back. */
type Attempt =
  | { readonly kind: "answered" }
  | { readonly kind: "failed"; readonly fault: UpstreamFault }
  | { readonly kind: "displaced" };

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
  const attemptNumber = (before?.replicaIds.length ?? 0) + 1;
  const attempt = await tryReplica(serving, lease, attemptNumber >= ATTEMPTS_MAX);
  if (attempt.kind === "answered") return;
  if (attempt.kind === "displaced") {
    // The pool displaces no request twice, so this does not go on for ever.
    await tryReplicas(serving, before);
    return;
  }
  const { fault } = attempt;
  const replicaIds = [...(before?.replicaIds ?? []), lease.dispatch.replicaId];
  if (!fault.isRetryable || replicaIds.length >= ATTEMPTS_MAX) {
    throw new GatewayError(fault.problem);
  }
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

/** Asks one replica, until the client has seen its answer's end or there is none. */
async function tryReplica(
  { call, receive, settings, permit }: Serving,
  lease: HeldLease,
  isLast: boolean,
): Promise<Attempt> {
  const { record, watch } = call;
  const { dispatch } = lease;
  const dispatchedAtMs = Date.now();
  record.attempts += 1;
  record.replicaId = dispatch.replicaId;
  record.dispatchedAtMs = dispatchedAtMs;
  record.isInProfile = dispatch.isInProfile;
  const ttftMs = dispatchedAtMs - startedAtMs(record) + dispatch.forecast.ttftMs;
  record.predictedTtftMs = Math.ceil(ttftMs);
  let outcome: Outcome = { kind: "abandoned" };
  const displaced = displacementSignal(call, lease);
  try {
    const signal = AbortSignal.any([watch.signal, displaced]);
    const answer = await askReplica(call, { dispatch, signal }, settings);
    const onFirstToken = (atMs: number): void => void lease.started(atMs - dispatchedAtMs);
    const reception =
      answer.kind === "answered" ? await receive(answer.body, { signal, onFirstToken }) : answer;
    if (reception.kind === "unusable" && displaced.aborted && watch.problem === undefined) {
      outcome = { kind: "displaced" };
      return { kind: "displaced" };
    }
    outcome = outcomeOf(call, reception, isLast);
    if (reception.kind === "unusable") {
      const { problem } = watch;
      if (problem === undefined) return { kind: "failed", fault: reception.fault };
      return { kind: "failed", fault: { kind: "failure", problem, isRetryable: false } };
    }
    const givenBack = Promise.all([lease.settle(outcome), permit.release()]);
    await reception.deliver();
    await givenBack;
    return { kind: "answered" };
  } finally {
    await lease.settle(outcome);
  }
}

/** Fires when the slot is taken back, unless the client has seen something: then it is kept. */
function displacementSignal({ record }: Call, lease: HeldLease): AbortSignal {
  const displacement = new AbortController();
  const heed = async (): Promise<void> => {
    const isDisplaced = await lease.onceDisplaced();
    if (!isDisplaced || record.stream?.hasReleased === true) return;
    displacement.abort(new Error("The slot was taken back"));
  };
  void heed();
  return displacement.signal;
}
