import type { ErrorCode, Problem } from "./errors.ts";
import { ERRORS, isErrorCode } from "./errors.ts";
import { UpstreamDetail, UpstreamErrorBody, UpstreamFlatError } from "./upstream-answer.ts";

/** A model server's refusal or failure in our words. */
export interface UpstreamFault {
  readonly problem: Problem;
  /**
   * `request`: the client's own fault, the same on every replica. `overload`: this replica has no
   * room. `model`: it does not have the model, which another one may. `failure`: it could not answer, which says
   * something about its health.
   */
  readonly kind: "request" | "overload" | "model" | "failure";
  /** Whether another replica may do better. */
  readonly isRetryable: boolean;
}

/** A server's refusal, as far as it tells why. */
export interface UpstreamRefusal {
  readonly status: number;
  /** Of the body, in lower case; empty where there was none. */
  readonly message: string;
}

const BareError = UpstreamFlatError.partial({ object: true });

const RETRY_AFTER_MS_DEFAULT = 1000;
/** A message is for a person; a longer one is a dump. */
const MESSAGE_CHARACTERS_MAX = 1000;

/** A refusal that is about us: the engine was started to take only what the gateway has salted. */
const GATEWAY_FAULTS: ReadonlySet<string> = new Set(["missing_cache_salt"]);

/**
 * Reads an answer with an error status. Our engine's code, parameter and message are kept where
 * they concern the request; of a foreign server only the message is, and only where the request is
 * at fault. Statuses about credentials or routes concern the gateway's own request, so the client
 * sees them as `upstream_error`.
 *
 * By 503 our engines say that they are full, and by 500 that this request breaks them wherever it goes. Of
 * others 503 may as well be a proxy's word that nobody is there, and 500 means anything: what counts
 * against a server's health and is worth another attempt.
 */
export function faultOfStatus(answer: {
  readonly status: number;
  readonly body: unknown;
  readonly retryAfterMs: number | undefined;
  /** True of a server that is not our engine. */
  readonly isForeign: boolean;
  /** Whether such a server says by it that it is full, where its kind has words for that. */
  readonly isOverload?: ((refusal: UpstreamRefusal) => boolean) | undefined;
  /** The same, that it does not have the model or adapter. */
  readonly lacksModel?: ((refusal: UpstreamRefusal) => boolean) | undefined;
}): UpstreamFault {
  const said = errorOf(answer.body);
  const message = said.message?.toLowerCase() ?? "";
  const refusal = { status: answer.status, message };
  const isFull = answer.isOverload?.(refusal) === true;
  const retryAfterMs = answer.retryAfterMs ?? RETRY_AFTER_MS_DEFAULT;
  if (isFull) return overload(retryAfterMs);
  if (answer.lacksModel?.(refusal) === true) return modelMissing();
  switch (answer.status) {
    case 400:
    case 413:
    case 422: {
      if (GATEWAY_FAULTS.has(said.code ?? "")) return upstreamFailure(false);
      return { kind: "request", isRetryable: false, problem: requestProblem(answer.status, said) };
    }
    // Our engine's word that it would go on otherwise; one that is like the first may be elsewhere.
    case 412:
      return answer.isForeign
        ? upstreamFailure(false)
        : { ...upstreamFailure(true), kind: "overload" };
    case 404:
      // A wrong address is answered so as well, but not with a word of models.
      return answer.isForeign && message.includes("model")
        ? modelMissing()
        : upstreamFailure(false);
    case 429:
      return overload(retryAfterMs);
    case 503:
      return { ...overload(retryAfterMs), ...(answer.isForeign && { kind: "failure" }) };
    case 504:
      return { kind: "failure", isRetryable: true, problem: { code: "timeout", retryAfterMs } };
    case 500:
      return upstreamFailure(answer.isForeign);
    default:
      // Others have statuses of their own for what went wrong with them, such as 424 and 529.
      return upstreamFailure(answer.status === 502 || (answer.isForeign && isServerFault(answer)));
  }
}

function overload(retryAfterMs: number): UpstreamFault {
  const problem = { code: "server_is_overloaded", retryAfterMs } as const;
  return { kind: "overload", isRetryable: true, problem };
}

/** What a client is told whose model no replica has. */
export const MODEL_ABSENT = "No replica has this model at present";

function modelMissing(): UpstreamFault {
  const problem = { code: "model_not_found", message: MODEL_ABSENT, param: "model" } as const;
  return { kind: "model", isRetryable: true, problem };
}

function isServerFault({ status }: { readonly status: number }): boolean {
  return status >= 500 || status === 424;
}

/** A replica that gave no usable answer, or none at all. */
export function upstreamFailure(isRetryable: boolean): UpstreamFault {
  return {
    kind: "failure",
    isRetryable,
    problem: { code: "upstream_error", retryAfterMs: RETRY_AFTER_MS_DEFAULT },
  };
}

/**
 * Reads an error that came inside an answer of status 200, or returns `undefined` where the body
 * is none. The codes of our engine that blame the server are kept with their message.
 */
export function problemInAnswer(body: unknown): Problem | undefined {
  // Asked of every chunk, and almost always in vain: a look is cheaper than a failing schema.
  if (typeof body !== "object" || body === null || !Object.hasOwn(body, "error")) return undefined;
  if (!UpstreamErrorBody.safeParse(body).success) return undefined;
  const { code, message } = errorOf(body);
  if (code === undefined || ERRORS[code].status < 500) return { code: "upstream_error" };
  return { code, ...(message !== undefined && { message }) };
}

interface Said {
  readonly code: ErrorCode | undefined;
  readonly message: string | undefined;
  readonly param: string | undefined;
}

function errorOf(body: unknown): Said {
  // SGLang and TensorRT-LLM tell an error without an object around it, Dynamo's does not even say that it is one.
  const flat = BareError.safeParse(body);
  const detail = UpstreamDetail.safeParse(body).data?.detail;
  const bare = flat.success ? flat.data : detail;
  const parsed = UpstreamErrorBody.safeParse(bare === undefined ? body : { error: bare });
  if (!parsed.success) return { code: undefined, message: undefined, param: undefined };
  const { error } = parsed.data;
  const { message, code, param } =
    typeof error === "string" ? { message: error, code: undefined, param: undefined } : error;
  return {
    code: isErrorCode(code) ? code : undefined,
    message: message === "" ? undefined : message.slice(0, MESSAGE_CHARACTERS_MAX),
    param: typeof param === "string" ? param.slice(0, MESSAGE_CHARACTERS_MAX) : undefined,
  };
}

function requestProblem(status: number, { code, message, param }: Said): Problem {
  const isOurs = code !== undefined && (ERRORS[code].status === 400 || ERRORS[code].status === 413);
  const fallback = status === 413 ? "request_too_large" : "invalid_value";
  return {
    code: isOurs ? code : fallback,
    ...(message !== undefined && { message }),
    ...(param !== undefined && { param }),
  };
}
