import type { Dispatch, Outcome } from "../src/pool/offer.ts";
import type { ReplicaId } from "../src/protocol/ids.ts";
import type { UpstreamFault } from "../src/protocol/upstream-problem.ts";
import { attemptLimitMs } from "../src/slo/attempt-limit.ts";
import { e2eLimitMs, stallMarkMs } from "../src/slo/deadlines.ts";
import type { HeldLease } from "./acquire.ts";
import type { HeldPermit } from "./acquire-permit.ts";
import { outcomeOf, outcomeOfCopy, outcomeOfPart, retryReasonOf } from "./attempt-outcome.ts";
import type { Call } from "./call.ts";
import { startedAtMs } from "./call.ts";
import type { PendingHeads } from "./pending-heads.ts";
import { prefillElsewhere } from "./prefill-elsewhere.ts";
import type { Reception, ReceiveAnswer } from "./reception.ts";
import { askReplica } from "./replica-request.ts";
import type { Settings } from "./settings.ts";
import { sloToldOf } from "./slo-told.ts";
import { endingOfAnswer } from "./usage-ending-of.ts";

/** A call on its way, with what it needs at every attempt. */
export interface Serving {
  readonly call: Call;
  readonly receive: ReceiveAnswer;
  readonly settings: Settings;
  readonly permit: HeldPermit;
  readonly heads: PendingHeads;
}

/** A call at one replica, and how it stands beside its other copy, if there is one. */
export interface AttemptCopy {
  readonly lease: HeldLease;
  /** Fires when it is to end because it is late, or the other one has answered. */
  readonly signal: AbortSignal;
  standing: "racing" | "late" | "overtaken";
  /** To be told before the client is given anything of it. */
  readonly answers: () => void;
  /** To be told when it can give the client nothing more, or has. Tells who may still answer. */
  readonly leaves: () => {
    readonly isLastCopy: boolean;
    readonly isLastAttempt: boolean;
    /** Whether another replica may be asked at all. */
    readonly hasAttemptsLeft: boolean;
  };
}

/** How an attempt ended: with an answer, with a part of one, with none, or with the slot taken back. */
export type Attempt =
  | { readonly kind: "answered" }
  | {
      readonly kind: "interrupted";
      readonly fault: UpstreamFault;
      readonly replicaId: ReplicaId;
    }
  | { readonly kind: "failed"; readonly fault: UpstreamFault }
  | { readonly kind: "displaced" };

/** What a replica is charged with that gave no answer while another one could have. */
const LATE: UpstreamFault = { kind: "failure", problem: { code: "timeout" }, isRetryable: true };

/** Asks one replica, until the client has seen its answer's end or there is none. */
export async function tryReplica(serving: Serving, copy: AttemptCopy): Promise<Attempt> {
  const { call, permit } = serving;
  const { lease } = copy;
  noteAttempt(call, lease.dispatch);
  let outcome: Outcome = { kind: "abandoned" };
  const displaced = displacementSignal(call, lease);
  try {
    const reading = await receiveAnswer(serving, copy, displaced);
    const { isLastCopy, isLastAttempt, hasAttemptsLeft } = copy.leaves();
    if (reading.kind === "interrupted" && hasAttemptsLeft && call.watch.problem === undefined) {
      const { answer, fault } = reading;
      outcome = outcomeOfPart(call, reading);
      call.record.interrupted = answer;
      return { kind: "interrupted", fault, replicaId: lease.dispatch.replicaId };
    }
    const received = reading.kind === "interrupted" ? reading.giveUp() : reading;
    if (received.kind !== "unusable") {
      outcome = outcomeOf(call, received, true);
      const leaseSettled = lease.settle(outcome);
      // Whoever sees the end can rely on it that what it cost is counted, whatever dies now.
      await permit.release(endingOfAnswer(call), sloToldOf(call));
      await received.deliver();
      await leaseSettled;
      return { kind: "answered" };
    }
    const { problem } = call.watch;
    if (problem === undefined && displaced.aborted) {
      outcome = { kind: "displaced" };
      return { kind: "displaced" };
    }
    if (problem === undefined && copy.standing === "overtaken") {
      outcome = { kind: "overtaken" };
      return { kind: "failed", fault: LATE };
    }
    const isLate = problem === undefined && copy.standing === "late";
    const reception: Reception = isLate ? { kind: "unusable", fault: LATE } : received;
    outcome = isLastCopy
      ? outcomeOf(call, reception, isLastAttempt)
      : outcomeOfCopy(call, reception);
    if (problem === undefined) return { kind: "failed", fault: reception.fault };
    return { kind: "failed", fault: { kind: "failure", problem, isRetryable: false } };
  } finally {
    call.record.retryReason = retryReasonOf(outcome);
    await lease.settle(outcome);
  }
}

/** How long a call's copy may go without an answer: for ever where nobody can say that it is late. */
export function attemptLimitOf(
  { isStreamed, promise, record, target: { outputTokensMax } }: Call,
  { forecast, firstTokenBudgetMs }: Dispatch,
): number {
  if (isStreamed) {
    return attemptLimitMs({ boundMs: forecast.ttftMs, budgetMs: firstTokenBudgetMs });
  }
  if (outputTokensMax === undefined) return Infinity;
  const { targets } = promise;
  // Who joins it on its replica may slow it down to what was promised.
  const tpotMs = Math.max(forecast.tpotMs, targets.tpot?.limitMs ?? 0);
  const boundMs = forecast.ttftMs + tpotMs * (outputTokensMax - 1);
  const elapsedMs = Date.now() - startedAtMs(record);
  const budgetMs = Math.max(0, e2eLimitMs(targets, 0, outputTokensMax) - elapsedMs);
  return attemptLimitMs({ boundMs, budgetMs });
}

function noteAttempt(call: Call, dispatch: Dispatch): void {
  call.record.attempts += 1;
  if (call.record.interrupted !== undefined) call.record.continuations += 1;
  noteDispatch(call, dispatch, Date.now());
}

/**
 * Of two copies the last one sent is noted, until one of them answers. What was foreseen of an answer stays
 * with where it began.
 */
function noteDispatch({ record }: Call, dispatch: Dispatch, dispatchedAtMs: number): void {
  record.replicaId = dispatch.replicaId;
  record.ownDispatchedAtMs = dispatchedAtMs;
  if (record.interrupted !== undefined) return;
  record.dispatchedAtMs = dispatchedAtMs;
  record.isInProfile = dispatch.isInProfile;
  const ttftMs = dispatchedAtMs - startedAtMs(record) + dispatch.forecast.ttftMs;
  record.predictedTtftMs = Math.ceil(ttftMs);
}

/** Returns what came of the replica's answer, as far as it goes before the client sees its end. */
async function receiveAnswer(
  { call, receive, settings, permit, heads }: Serving,
  { lease, signal: stopped, answers }: AttemptCopy,
  displaced: AbortSignal,
): Promise<Reception> {
  const signal = AbortSignal.any([call.watch.signal, displaced, stopped]);
  const sentAtMs = Date.now();
  const asking = heads.during(async () => {
    // Mostly there is no other place, and then nothing may come between.
    const isSplit = lease.dispatch.prefillAt !== undefined;
    const dispatch = isSplit
      ? await prefillElsewhere(call, { lease, signal }, settings)
      : lease.dispatch;
    return askReplica(call, { dispatch, signal }, settings);
  });
  const { dispatch } = lease;
  // While the replica computes there is time for that.
  const { recorded } = permit;
  const answer = await asking;
  if (answer.said !== undefined) {
    const isHeard = lease.limited(answer.said);
    // Whoever asks for another replica next must not be sent where the model is not.
    if (answer.said.lacksModel) await isHeard;
  }
  if (answer.kind !== "answered") return answer;
  const onAnswer = (): void => {
    noteDispatch(call, dispatch, sentAtMs);
    const { cachedTokensMax } = call.record;
    // What another replica computed for it is no hit.
    const isPromptCached =
      cachedTokensMax === undefined ? answer.isPromptCached : cachedTokensMax > 0;
    call.record.isPromptCached ??= isPromptCached;
    answers();
  };
  const onFirstToken = (atMs: number): void => void lease.started(atMs - sentAtMs);
  return receive(answer.body, {
    signal,
    recorded,
    onAnswer,
    onFirstToken,
    stallMarkMs: stallMarkMs(call.promise.promised, dispatch.forecast.tpotMs),
    onStall: () => void lease.stalled(),
    tellsTokens: answer.tellsTokens,
    prospects: () => lease.prospects([]),
  });
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
