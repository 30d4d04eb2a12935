import { ADAPTERS } from "../src/adapters/adapters.ts";
import { bodyEditsOf } from "../src/adapters/body-edits.ts";
import type { Dispatch } from "../src/pool/offer.ts";
import { CONTINUATION_MEMBER } from "../src/protocol/continuation.ts";
import { CACHE_HIT, CLIENT_HEADERS, ENGINE_HEADERS } from "../src/protocol/headers.ts";
import { encodeChain } from "../src/protocol/prompt-chain.ts";
import type { SaidLimit } from "../src/protocol/said-limit.ts";
import { saidLimitOf } from "../src/protocol/said-limit.ts";
import { editMembers } from "../src/protocol/json-text.ts";
import { encodeTraceparent } from "../src/protocol/trace-context.ts";
import type { UpstreamFault } from "../src/protocol/upstream-problem.ts";
import { paceMs, ttftLimitMs } from "../src/slo/deadlines.ts";
import { faultOfStatus, upstreamFailure } from "../src/protocol/upstream-problem.ts";
import type { PlainServer } from "../src/replicas/replica-state.ts";
import type { InterruptedAnswer } from "../src/streaming/interrupted-answer.ts";
import type { Call } from "./call.ts";
import { foreignHeaders } from "./foreign-headers.ts";
import { readBody } from "./read-body.ts";
import type { Settings } from "./settings.ts";
import { transportOf } from "./transport.ts";

/** A replica's answer of status 200, or why there is none; `said`: what it told of its limits. */
export type ReplicaAnswer = { readonly said?: SaidLimit } & AnswerOrFault;

type AnswerOrFault =
  | {
      readonly kind: "answered";
      readonly body: ReadableStream<Uint8Array>;
      /** Whether its chunks say which tokens they are from. */
      readonly tellsTokens: boolean;
      /** Whether anything of the prompt was found cached, as far as its head tells. */
      readonly isPromptCached: boolean | undefined;
    }
  | { readonly kind: "unusable"; readonly fault: UpstreamFault };

const ERROR_BYTES_MAX = 65_536;

/**
 * Sends a call to a replica. The headers are made here from nothing: whatever the client sent along
 * (credentials, cookies, headers of ours it made up) stays behind. That a replica is away or silent is
 * an answer too, and no exception.
 */
export async function askReplica(
  call: Call,
  { dispatch, signal }: { readonly dispatch: Dispatch; readonly signal: AbortSignal },
  settings: Settings,
): Promise<ReplicaAnswer> {
  const { interrupted } = call.record;
  const { plain } = dispatch;
  // The pool's servers may have become others since the answer began.
  if (interrupted !== undefined && plain !== undefined) return CANNOT_GO_ON;
  const body =
    interrupted === undefined ? bodyFor(call, dispatch) : continuedBody(call, interrupted);
  const response = await sendToReplica(call, { dispatch, body, signal }, settings);
  if (response === undefined) return { kind: "unusable", fault: upstreamFailure(true) };
  const answer = await readHead(call, response, plain);
  const said = plain && saidBy(response.headers, answer, plain);
  return said === undefined ? answer : { ...answer, said };
}

/** Posts a call to a replica; `undefined`: whether it was refused, reset or stopped by us, nothing came back. */
async function sendToReplica(
  call: Call,
  given: { readonly dispatch: Dispatch; readonly body: string; readonly signal: AbortSignal },
  settings: Settings,
  also: Readonly<Record<string, string>> = {},
): Promise<Response | undefined> {
  const { dispatch, body, signal } = given;
  const transport = transportOf(dispatch.transport, settings);
  const headers = {
    ...plainHeaders(call),
    ...ownHeaders(call, dispatch, settings),
    ...also,
    ...transport.headers,
  };
  const url = `${dispatch.endpointUrl.replace(/\/+$/, "")}${call.operation.path}`;
  // Following a redirect would send the secret wherever the replica says.
  const request: RequestInit = { method: "POST", headers, body, redirect: "manual", signal };
  return transport.fetch(url, request).catch(() => undefined);
}

/** Asks one of our engines to compute a call's prompt, for another one that fetches what it holds then. */
export function askForPrefill(
  call: Call,
  given: { readonly dispatch: Dispatch; readonly signal: AbortSignal },
  settings: Settings,
): Promise<Response | undefined> {
  const body = call.target.upstreamBody;
  return sendToReplica(call, { ...given, body }, settings, { [ENGINE_HEADERS.prefillOnly]: "1" });
}

/** What a server that is not ours tells of its limits beside its answer. */
function saidBy(
  headers: Headers,
  answer: ReplicaAnswer,
  plain: PlainServer,
): SaidLimit | undefined {
  const refusal = answer.kind === "unusable" ? answer.fault.kind : undefined;
  if (refusal === "model") return { isRefused: false, holdOffMs: 0, lacksModel: true };
  return saidLimitOf({
    isRefused: refusal === "overload",
    headerOf: (name) => headers.get(name),
    usualHoldOffMs: ADAPTERS[plain.engine].holdOffMs ?? 0,
  });
}

/** Nothing is wrong with a replica of another version, and others may be of this one. */
const CANNOT_GO_ON: ReplicaAnswer = {
  kind: "unusable",
  fault: { ...upstreamFailure(true), kind: "overload" },
};

/** The client's request, without what is not a client's to say there, and with what the gateway says instead. */
function bodyFor({ target, operation }: Call, { plain, urgency }: Dispatch): string {
  if (plain === undefined) return target.upstreamBody;
  const { cacheSalt } = target.keys;
  // Vectors are of nobody's cache, and of no order that any server has for them.
  const words =
    operation.name === "embeddings" ? {} : { cacheSalt, ...(urgency !== undefined && { urgency }) };
  const edits = bodyEditsOf(ADAPTERS[plain.engine], words);
  if (Object.keys(edits).length === 0) return target.upstreamBody;
  return editMembers(target.upstreamBody, edits);
}

/** The client's request, to be gone on with. */
function continuedBody({ target }: Call, { continuation }: InterruptedAnswer): string {
  return editMembers(target.upstreamBody, { [CONTINUATION_MEMBER]: JSON.stringify(continuation) });
}

/** What any server is sent. */
function plainHeaders(call: Call): Record<string, string> {
  return {
    "content-type": "application/json",
    accept: call.isStreamed ? "text/event-stream" : "application/json",
    // Compressed tokens wait for each other in the compressor.
    "accept-encoding": "identity",
    [ENGINE_HEADERS.traceparent]: encodeTraceparent(call.record.trace),
  };
}

/** What only our engines understand, and may know; of a server that is not ours the secret it asks for. */
function ownHeaders(call: Call, dispatch: Dispatch, settings: Settings): Record<string, string> {
  if (dispatch.plain !== undefined) return foreignHeaders(dispatch.plain, settings);
  const keys = call.target.keys;
  const tbtMs = paceMs(call.promise.promised);
  return {
    authorization: `Bearer ${settings.replicaSecret}`,
    [ENGINE_HEADERS.requestId]: call.requestId,
    [ENGINE_HEADERS.tenant]: keys.opaqueTenant,
    [ENGINE_HEADERS.cacheSalt]: keys.cacheSalt,
    ...(keys.hashes.length > 0 && {
      [ENGINE_HEADERS.chain]: encodeChain(keys.hashes, keys.promptBytes),
    }),
    ...(call.isStreamed && {
      [ENGINE_HEADERS.deadlineMs]: String(deadlineMsOf(call, dispatch)),
    }),
    ...(tbtMs < Infinity && { [ENGINE_HEADERS.tbtMs]: String(tbtMs) }),
    ...(call.isContinuable && { [ENGINE_HEADERS.tellTokens]: "1" }),
    ...(dispatch.kvPeerUrl !== undefined && { [ENGINE_HEADERS.kvPeer]: dispatch.kvPeerUrl }),
    [ENGINE_HEADERS.dispatch]: dispatch.dispatch,
  };
}

/**
 * What is left until the first token must be there, as promised: an engine serves the earliest first, and by
 * a tighter wish nobody shall get ahead of others there.
 */
function deadlineMsOf({ promise, promptTokens }: Call, { firstTokenBudgetMs }: Dispatch): number {
  const askedMs = ttftLimitMs(promise.targets, promptTokens);
  const promisedMs = ttftLimitMs(promise.promised, promptTokens);
  const slackMs = promisedMs < Infinity ? promisedMs - askedMs : 0;
  return Math.max(0, Math.floor(firstTokenBudgetMs + slackMs));
}

/** The type must be the one asked for: an error page of status 200 is no answer either. */
async function readHead(
  call: Call,
  response: Response,
  plain: PlainServer | undefined,
): Promise<ReplicaAnswer> {
  const type = response.headers.get("content-type") ?? "";
  const wanted = call.isStreamed ? "text/event-stream" : "application/json";
  const { body, status } = response;
  if (status === 200 && body !== null && type.startsWith(wanted)) {
    const toldTokens = call.isContinuable ? response.headers.get(ENGINE_HEADERS.tellTokens) : null;
    const emittedTokens = call.record.interrupted?.continuation.token_ids.length ?? 0;
    if (emittedTokens === 0 || toldTokens === String(emittedTokens)) {
      const isPromptCached = plain === undefined ? isCacheHit(response.headers) : undefined;
      return { kind: "answered", body, tellsTokens: toldTokens !== null, isPromptCached };
    }
    // One that has not gone on has begun anew, and the client would read all of it twice.
    await body.cancel().catch(() => {});
    return CANNOT_GO_ON;
  }
  if (status === 200) {
    await body?.cancel().catch(() => {});
    return { kind: "unusable", fault: upstreamFailure(true) };
  }
  const said = await readBody(body, ERROR_BYTES_MAX).catch(() => undefined);
  const retryAfterMs = retryAfterOf(response.headers);
  const fault = faultOfStatus({
    status,
    body: parseJson(said),
    retryAfterMs,
    isForeign: plain !== undefined,
    isOverload: plain && ADAPTERS[plain.engine].isOverload,
    lacksModel: plain && ADAPTERS[plain.engine].lacksModel,
  });
  // What its client asked for was taken before: what is refused now is how we ask to go on with it.
  const isOurs = fault.kind === "request" && call.record.interrupted !== undefined;
  return isOurs ? CANNOT_GO_ON : { kind: "unusable", fault };
}

/** What one of our engines says of where its time went, and of what it did not have to compute. */
function isCacheHit(headers: Headers): boolean {
  return headers.get(CLIENT_HEADERS.serverTiming)?.includes(CACHE_HIT) === true;
}

function retryAfterOf(headers: Headers): number | undefined {
  const seconds = headers.get("retry-after") ?? "";
  return /^\d{1,6}$/.test(seconds) ? Number(seconds) * 1000 : undefined;
}

function parseJson(bytes: Uint8Array | undefined): unknown {
  try {
    return JSON.parse(new TextDecoder().decode(bytes));
  } catch {
    return undefined;
  }
}
