/** What a client sees of one kind of failure. */
export interface ErrorSpec {
  readonly status: number;
  readonly type:
    | "invalid_request_error"
    | "permission_error"
    | "rate_limit_error"
    | "insufficient_quota"
    | "service_unavailable_error"
    | "server_error";
  readonly message: string;
}

const invalid = (message: string) =>
  ({ status: 400, type: "invalid_request_error", message }) as const;

/**
 * Every failure that goes over the wire, of the edge and the engine alike. The keys are the
 * envelope's `code` and the `error.type` label of metrics, so the set is closed and small.
 */
export const ERRORS = {
  invalid_json: invalid("The request body is not valid JSON"),
  missing_required_parameter: invalid("A required parameter is missing"),
  invalid_type: invalid("A parameter has the wrong type"),
  invalid_value: invalid("A parameter has an invalid value"),
  empty_array: invalid("A list is empty that must not be"),
  array_above_max_length: invalid("A list is too long"),
  string_above_max_length: invalid("A string is too long"),
  integer_below_min_value: invalid("An integer is too small"),
  integer_above_max_value: invalid("An integer is too large"),
  decimal_below_min_value: invalid("A number is too small"),
  decimal_above_max_value: invalid("A number is too large"),
  unsupported_value: invalid("A parameter has a value that is not supported"),
  unsupported_parameter: invalid("A parameter is not supported"),
  context_length_exceeded: invalid("The prompt exceeds the model's maximum context length"),
  slo_unattainable: invalid("The prompt is too long for its first token to be in time"),
  missing_cache_salt: invalid("This engine serves only requests that carry x-gw-cache-salt"),
  missing_api_key: {
    status: 401,
    type: "invalid_request_error",
    message: "No API key was sent: expected the header 'Authorization: Bearer KEY'",
  },
  invalid_api_key: {
    status: 401,
    type: "invalid_request_error",
    message: "The API key is not valid",
  },
  permission_denied: {
    status: 403,
    type: "permission_error",
    message: "The API key may not do this",
  },
  model_not_found: {
    status: 404,
    type: "invalid_request_error",
    message: "The model does not exist or the API key may not use it",
  },
  not_found: { status: 404, type: "invalid_request_error", message: "There is nothing here" },
  method_not_allowed: {
    status: 405,
    type: "invalid_request_error",
    message: "The method is not allowed on this route",
  },
  // Not 409: clients try that again, and the same request can only fail again.
  version_conflict: {
    status: 412,
    type: "invalid_request_error",
    message: "Another version of the configuration is live than the one expected",
  },
  // For the gateway, which asks another engine; no client of it ever asks for a continuation.
  continuation_mismatch: {
    status: 412,
    type: "invalid_request_error",
    message: "The answer cannot go on here as it would have gone on where it began",
  },
  // For another engine, which computes what it does not get.
  kv_mismatch: {
    status: 412,
    type: "invalid_request_error",
    message: "The KV of this engine is of another model, precision or block size",
  },
  request_too_large: {
    status: 413,
    type: "invalid_request_error",
    message: "The request body is too large",
  },
  unsupported_content_encoding: {
    status: 415,
    type: "invalid_request_error",
    message: "The request body is compressed: expected content-encoding 'identity' or none",
  },
  upgrade_required: {
    status: 426,
    type: "invalid_request_error",
    message: "This route is a WebSocket: expected the header 'upgrade: websocket'",
  },
  rate_limit_exceeded: {
    status: 429,
    type: "rate_limit_error",
    message: "The tenant's limit is reached",
  },
  insufficient_quota: {
    status: 429,
    type: "insufficient_quota",
    message: "The tenant's quota is used up",
  },
  server_is_overloaded: {
    status: 503,
    type: "service_unavailable_error",
    message: "The service has no capacity to answer in time",
  },
  not_configured: {
    status: 503,
    type: "server_error",
    message: "The gateway is not configured to serve yet",
  },
  upstream_error: {
    status: 502,
    type: "server_error",
    message: "The model server failed before the answer was complete",
  },
  timeout: { status: 504, type: "server_error", message: "The answer took too long" },
  internal_error: { status: 500, type: "server_error", message: "An internal error occurred" },
} as const satisfies Record<string, ErrorSpec>;

export type ErrorCode = keyof typeof ERRORS;

/** Whether a value from elsewhere is one of our codes. */
export function isErrorCode(code: unknown): code is ErrorCode {
  return typeof code === "string" && Object.hasOwn(ERRORS, code);
}

/** A failure with what is particular about it; `message` defaults to the table's. */
export interface Problem {
  readonly code: ErrorCode;
  readonly message?: string;
  /** The parameter at fault as a path such as `messages[2].content`. */
  readonly param?: string;
  /** When a retry may succeed. Sent rounded up to whole seconds, clamped to 1..60. */
  readonly retryAfterMs?: number;
  /** False where the code is one that clients try again, but this request can only fail again. */
  readonly shouldRetry?: false;
}

/** OpenAI's error envelope: `param` and `code` are always present. */
export interface ErrorEnvelope {
  readonly error: {
    readonly message: string;
    readonly type: string;
    readonly param: string | null;
    readonly code: string;
  };
}

/** Builds the one error body that clients of the edge and of the engine see. */
export function toErrorEnvelope(problem: Problem): ErrorEnvelope {
  const spec = ERRORS[problem.code];
  return {
    error: {
      message: problem.message ?? spec.message,
      type: spec.type,
      param: problem.param ?? null,
      code: problem.code,
    },
  };
}

const RETRY_AFTER_SECONDS_MAX = 60;

/**
 * Returns the `retry-after` pair for a problem. Above 60 s some SDKs ignore the header and retry at
 * once, others sleep it all, so it is clamped to 1..60.
 */
export function retryHeaders(problem: Problem): Record<string, string> {
  if (problem.shouldRetry === false) return { "x-should-retry": "false" };
  if (problem.retryAfterMs === undefined) return {};
  const cappedMs = cappedRetryMs(problem.retryAfterMs);
  return {
    "retry-after": String(Math.ceil(cappedMs / 1000)),
    "retry-after-ms": String(Math.ceil(cappedMs)),
  };
}

/** The delay that a client is told. */
export function cappedRetryMs(retryAfterMs: number): number {
  return Math.min(Math.max(retryAfterMs, 1), RETRY_AFTER_SECONDS_MAX * 1000);
}
