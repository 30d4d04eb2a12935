/** What a page may read, by name: `*` does not cover requests with credentials. */
const EXPOSED_HEADERS = [
  "x-request-id",
  "request-id",
  "retry-after",
  "retry-after-ms",
  "openai-processing-ms",
  "server-timing",
  "x-sluice-degraded",
  "x-cache",
  "x-ratelimit-limit-requests",
  "x-ratelimit-limit-tokens",
  "x-ratelimit-remaining-requests",
  "x-ratelimit-remaining-tokens",
  "x-ratelimit-reset-requests",
  "x-ratelimit-reset-tokens",
  "ratelimit-policy",
  "ratelimit",
].join(", ");

const PREFLIGHT_SECONDS_MAX = "86400";

/** On every answer to a page, errors included: without them a page cannot even read why it failed. */
export const CORS_HEADERS = {
  "access-control-allow-origin": "*",
  "access-control-expose-headers": EXPOSED_HEADERS,
} as const;

/**
 * Answers a browser's question before the request proper. It carries no credentials, so it needs
 * none. The headers asked for are echoed, since `*` does not cover `authorization`.
 */
export function preflightResponse(requested: Headers): Response {
  const headers = new Headers({
    "access-control-allow-origin": "*",
    "access-control-allow-methods": "GET, HEAD, POST, OPTIONS",
    "access-control-max-age": PREFLIGHT_SECONDS_MAX,
    vary: "access-control-request-headers",
  });
  const names = requested.get("access-control-request-headers");
  if (names !== null) headers.set("access-control-allow-headers", names);
  return new Response(null, { status: 204, headers });
}
