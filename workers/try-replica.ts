import type { Dispatch, Outcome } from "../src/pool/offer.ts";
import type { UpstreamFault } from "../src/protocol/upstream-problem.ts";
import { attemptLimitMs } from "../src/slo/attempt-limit.ts";
import { e2eLimitMs, stallMarkMs } from "../src/slo/deadlines.ts";
import type { HeldLease } from "./acquire.ts";
import type { HeldPermit } from "./acquire-permit.ts";
import { settlementOfAnswer } from "./acquire-permit.ts";
import { AttemptPatience } from "./attempt-patience.ts";
import { outcomeOf } from "./attempt-outcome.ts";
import type { Call } from "./call.ts";
import { startedAtMs } from "./call.ts";
import type { Reception, ReceiveAnswer } from "./reception.ts";
import { askReplica } from "./replica-request.ts";
import type { Settings } from "./settings.ts";

/** A call on its way, with what it needs at every attempt. */
export interface Serving {
  readonly call: Call;
  readonly receive: ReceiveAnswer;
  readonly settings: Settings;
  readonly permit: HeldPermit;
}

/** How an attempt ended: with an answer, with none, or with the slot taken back. */
export type Attempt =
  | { readonly kind: "answered" }
  | { readonly kind: "failed"; readonly fault: UpstreamFault }
  | { readonly kind: "displaced" };

/** What a replica is charged with that gave no answer while another one could have. */
const LATE: Reception = {
  kind: "unusable",
  fault: { kind: "failure", problem: { code: "timeout" }, isRetryable: true },
};

/**
 * Asks one replica, until the client has seen its answer's end or there is none. An attempt that is
 * not the last one is given up when its answer does not begin in time.
 */
export async function tryReplica(
  serving: Serving,
  lease: HeldLease,
  isLast: boolean,
): Promise<Attempt> {
  const { call, permit } = serving;
  noteDispatch(call, lease.dispatch);
  let outcome: Outcome = { kind: "abandoned" };
  const displaced = displacementSignal(call, lease);
  const patience = patienceWith(call, lease, isLast);
  try {
    const received = await receiveAnswer(serving, lease, { displaced, patience });
    patience?.end();
    const isUnusable = received.kind === "unusable" && call.watch.problem === undefined;
    if (isUnusable && displaced.aborted) {
      outcome = { kind: "displaced" };
      return { kind: "displaced" };
    }
    const reception = isUnusable && patience?.signal.aborted === true ? LATE : received;
    outcome = outcomeOf(call, reception, isLast);
    if (reception.kind === "unusable") {
      const { problem } = call.watch;
      if (problem === undefined) return { kind: "failed", fault: reception.fault };
      return { kind: "failed", fault: { kind: "failure", problem, isRetryable: false } };
    }
    const settlement = settlementOfAnswer(call);
    const givenBack = Promise.all([lease.settle(outcome), permit.release(settlement)]);
    await reception.deliver();
    await givenBack;
    return { kind: "answered" };
  } finally {
    patience?.end();
    await lease.settle(outcome);
  }
}

function noteDispatch({ record }: Call, dispatch: Dispatch): void {
  const dispatchedAtMs = Date.now();
  record.attempts += 1;
  record.replicaId = dispatch.replicaId;
  record.dispatchedAtMs = dispatchedAtMs;
  record.isInProfile = dispatch.isInProfile;
  const ttftMs = dispatchedAtMs - startedAtMs(record) + dispatch.forecast.ttftMs;
  record.predictedTtftMs = Math.ceil(ttftMs);
}

/** Returns what came of the replica's answer, as far as it goes before the client sees its end. */
async function receiveAnswer(
  { call, receive, settings }: Serving,
  lease: HeldLease,
  { displaced, patience }: { displaced: AbortSignal; patience: AttemptPatience | undefined },
): Promise<Reception> {
  const signals = [call.watch.signal, displaced];
  const signal = AbortSignal.any(patience === undefined ? signals : [...signals, patience.signal]);
  const sentAtMs = Date.now();
  const answer = await askReplica(call, { dispatch: lease.dispatch, signal }, settings);
  if (answer.kind !== "answered") return answer;
  const onFirstToken = (atMs: number): void => {
    patience?.end();
    void lease.started(atMs - sentAtMs);
  };
  const { forecast } = lease.dispatch;
  return receive(answer.body, {
    signal,
    onFirstToken,
    stallMarkMs: stallMarkMs(call.tenant.targets, forecast.tpotMs),
    onStall: () => void lease.stalled(),
  });
}

/**
 * Begins to wait for an answer to begin: for a stream's first token, or for all of an answer that comes
 * whole. Of one that has no known end nobody can say that it is late. What a tenant itself has set ends an
 * attempt in any case; otherwise the last one is waited for.
 */
function patienceWith(
  { isStreamed, tenant, record, outputTokensMax }: Call,
  lease: HeldLease,
  isLast: boolean,
): AttemptPatience | undefined {
  const { forecast, firstTokenBudgetMs } = lease.dispatch;
  const prospects = () => lease.prospects();
  const setMs = isStreamed ? tenant.timeouts?.firstTokenMs : undefined;
  if (setMs !== undefined)
    return new AttemptPatience({ limitMs: setMs, isStrict: true, prospects });
  if (isLast) return undefined;
  if (isStreamed) {
    const outlook = { boundMs: forecast.ttftMs, budgetMs: firstTokenBudgetMs };
    return new AttemptPatience({ limitMs: attemptLimitMs(outlook), prospects });
  }
  if (outputTokensMax === undefined) return new AttemptPatience({ limitMs: Infinity, prospects });
  const { targets } = tenant;
  // Who joins it on its replica may slow it down to what was promised.
  const tpotMs = Math.max(forecast.tpotMs, targets.tpot?.limitMs ?? 0);
  const boundMs = forecast.ttftMs + tpotMs * (outputTokensMax - 1);
  const elapsedMs = Date.now() - startedAtMs(record);
  const budgetMs = Math.max(0, e2eLimitMs(targets, 0, outputTokensMax) - elapsedMs);
  return new AttemptPatience({ limitMs: attemptLimitMs({ boundMs, budgetMs }), prospects });
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
