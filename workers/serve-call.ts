import type { ReplicaId } from "../src/protocol/ids.ts";
import type { UpstreamFault } from "../src/protocol/upstream-problem.ts";
import type { HeldLease } from "./acquire.ts";
import { acquireLease } from "./acquire.ts";
import { acquirePermit } from "./acquire-permit.ts";
import { AttemptRound } from "./attempt-round.ts";
import type { Call } from "./call.ts";
import type { Env } from "./env.ts";
import { GatewayError } from "./gateway-error.ts";
import { PendingHeads } from "./pending-heads.ts";
import type { ReceiveAnswer } from "./reception.ts";
import type { Settings } from "./settings.ts";
import { sloToldOf } from "./slo-told.ts";
import type { Serving } from "./try-replica.ts";
import { endingOfFailure } from "./usage-ending-of.ts";

/** Replicas that one call may be given to where its tenant says nothing, hedges too, before and behind its first token. */
const ATTEMPTS_MAX = 3;

/** What earlier attempts came to. */
interface Failures {
  readonly attempts: number;
  /** That have failed since the client got something, the one among them that it got that from. */
  readonly replicaIds: readonly ReplicaId[];
  /** Of the latest one. */
  readonly fault: UpstreamFault;
}

/**
 * Takes a call from its tenant's permit to its answer's end. When a replica fails, or does not begin
 * in time, before the client has seen anything, it is left out and the call offered once more with
 * what is left of its time; so is one whose answer another replica can go on with.
 *
 * Throws a `GatewayError` when no answer has begun. Whatever happens, permit and lease are given
 * back, and before the client can see the end: its next request must not find its own place taken.
 */
export async function serveCall(
  call: Call,
  receive: ReceiveAnswer,
  { env, settings }: { readonly env: Env; readonly settings: Settings },
): Promise<void> {
  const permit = await acquirePermit(call, env);
  try {
    await tryReplicas({ call, receive, permit, settings, heads: new PendingHeads() }, env);
  } finally {
    await permit.release(endingOfFailure(call), sloToldOf(call));
  }
}

async function tryReplicas(serving: Serving, env: Env, before?: Failures): Promise<void> {
  const lease = await acquireAnother(serving.call, env, before);
  const { attemptsMax = ATTEMPTS_MAX } = serving.call.tenant;
  const attemptsBefore = before?.attempts ?? 0;
  const round = new AttemptRound(serving, attemptsMax - attemptsBefore);
  const { attempt, replicaIds: replicaIdsNow } = await round.run(lease);
  if (attempt.kind === "answered") return;
  if (attempt.kind === "displaced") {
    // The pool displaces no request twice, so this does not go on for ever.
    await tryReplicas(serving, env, before);
    return;
  }
  const { fault } = attempt;
  const attempts = attemptsBefore + replicaIdsNow.length;
  if (!fault.isRetryable || attempts >= attemptsMax) throw new GatewayError(fault.problem);
  // Whoever failed before has had the time that this one has answered to recover.
  const replicaIds =
    attempt.kind === "interrupted"
      ? [attempt.replicaId]
      : [...(before?.replicaIds ?? []), ...replicaIdsNow];
  await tryReplicas(serving, env, { attempts, replicaIds, fault });
}

/** That there is no other replica is true, but not why the client gets no answer. */
async function acquireAnother(call: Call, env: Env, before?: Failures): Promise<HeldLease> {
  try {
    return await acquireLease(call, before?.replicaIds ?? [], env);
  } catch (error) {
    if (before === undefined || !(error instanceof GatewayError)) throw error;
    throw new GatewayError(call.watch.problem ?? before.fault.problem);
  }
}
