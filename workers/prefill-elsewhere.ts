import type { Dispatch, PrefillOutcome, PrefillPlace } from "../src/pool/offer.ts";
import { PrefillAnswer } from "../src/protocol/prefill-answer.ts";
import { faultOfStatus } from "../src/protocol/upstream-problem.ts";
import type { HeldLease } from "./acquire.ts";
import type { Call } from "./call.ts";
import { readBody } from "./read-body.ts";
import { askForPrefill } from "./replica-request.ts";
import type { Settings } from "./settings.ts";

/** Of what an engine says that has computed a prompt, or why it has not. */
const ANSWER_BYTES_MAX = 65_536;

/**
 * Has a call's prompt computed on another replica, where its lease says so, before the one is asked that is to
 * answer. Returns the dispatch to that one: with the place from where KV can be fetched, or, whatever went
 * wrong there, without it, so that it computes all of the prompt itself.
 */
export async function prefillElsewhere(
  call: Call,
  { lease, signal }: { readonly lease: HeldLease; readonly signal: AbortSignal },
  settings: Settings,
): Promise<Dispatch> {
  const { dispatch } = lease;
  const { prefillAt } = dispatch;
  if (prefillAt === undefined) return dispatch;
  if (call.choiceCount > 1) {
    // Whoever makes several at once fetches nothing for them.
    void lease.prefilled(ABANDONED);
    return dispatch;
  }
  const beganAtMs = Date.now();
  const late = AbortSignal.timeout(prefillAt.limitMs);
  const asked = { dispatch, prefillAt, signal: AbortSignal.any([signal, late]) };
  const found = await prefill(call, asked, settings);
  const outcome = signal.aborted
    ? ABANDONED
    : late.aborted && found.kind === "failed"
      ? LATE
      : found;
  void lease.prefilled(outcome);
  const firstTokenBudgetMs = Math.max(0, dispatch.firstTokenBudgetMs - (Date.now() - beganAtMs));
  if (outcome.kind === "done") {
    const { record } = call;
    // What an attempt before this one has computed was cached nowhere when the request came.
    record.cachedTokensMax = Math.min(record.cachedTokensMax ?? Infinity, outcome.cachedTokens);
    return { ...dispatch, firstTokenBudgetMs, kvPeerUrl: prefillAt.endpointUrl };
  }
  const { kvPeerUrl, ...alone } = dispatch;
  // Who has just failed is asked for nothing more.
  const hasPeer = kvPeerUrl !== undefined && kvPeerUrl !== prefillAt.endpointUrl;
  return { ...alone, firstTokenBudgetMs, ...(hasPeer && { kvPeerUrl }) };
}

const ABANDONED: PrefillOutcome = { kind: "abandoned" };
const LATE: PrefillOutcome = { kind: "late" };
const FAILED: PrefillOutcome = { kind: "failed" };
/** Whoever answers the request will say why, if it is the request. */
const REFUSED: PrefillOutcome = { kind: "refused" };

async function prefill(
  call: Call,
  asked: {
    readonly dispatch: Dispatch;
    readonly prefillAt: PrefillPlace;
    readonly signal: AbortSignal;
  },
  settings: Settings,
): Promise<PrefillOutcome> {
  const { prefillAt, signal } = asked;
  const { limitMs: _, ...place } = prefillAt;
  const { kvPeerUrl: __, transport: ___, prefillAt: ____, ...ownDispatch } = asked.dispatch;
  const dispatch = { ...ownDispatch, ...place };
  const response = await askForPrefill(call, { dispatch, signal }, settings);
  if (response === undefined) return FAILED;
  const { status, body } = response;
  const isAnswer = response.headers.get("content-type")?.startsWith("application/json") === true;
  if (status === 200 && !isAnswer) {
    // One that does not know what it was asked generates: it is well, and is stopped.
    await body?.cancel().catch(() => {});
    return REFUSED;
  }
  const read = await readBody(body, ANSWER_BYTES_MAX).then(
    (bytes) => ({ json: bytes && parseJson(bytes) }),
    () => undefined,
  );
  if (read === undefined) return FAILED;
  if (status !== 200) {
    const said = { status, body: read.json, retryAfterMs: undefined, isForeign: false };
    return faultOfStatus(said).kind === "failure" ? FAILED : REFUSED;
  }
  const { data } = PrefillAnswer.safeParse(read.json);
  // Of what it does not hold nothing can be fetched.
  if (data === undefined || data.held_tokens === 0) return REFUSED;
  return { kind: "done", cachedTokens: data.cached_tokens };
}

function parseJson(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder().decode(bytes));
  } catch {
    return undefined;
  }
}
