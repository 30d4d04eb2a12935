import type { ErrorCode } from "./errors.ts";
import { NO_LABELS, withLabel } from "../base/metric-text.ts";
import { OPERATIONS } from "./operation.ts";

/** Paths that are told by their own name; of others only what they are below, or nothing. */
const ROUTES = new Set<string>([
  ...OPERATIONS.map(({ path }) => path),
  "/v1/models",
  "/v1/usage",
  "/v1/slo",
  "/health",
  "/metrics",
]);
const PREFIXES = ["/v1/models/", "/admin/v1/", "/internal/pools/"] as const;
const OTHER = "other";

/** Far more than there are routes with the statuses and codes that they answer with. */
export const REQUEST_LABELS_MAX = 1_000;

/**
 * Names the route of a request, its status and our code of its failure for `gw_requests_total`. None of it
 * is text of a client: a path that is no route of ours is `other`.
 */
export function requestLabels(path: string, status: number, code: ErrorCode | undefined): string {
  const below = PREFIXES.find((prefix) => path.startsWith(prefix));
  const route = ROUTES.has(path) ? path : (below ?? OTHER);
  const labels = withLabel(withLabel(NO_LABELS, "route", route), "status", String(status));
  return withLabel(labels, "code", code ?? "");
}

/** What stands for labels that there are too many of. */
export const OTHER_REQUEST_LABELS = withLabel(
  withLabel(withLabel(NO_LABELS, "route", OTHER), "status", OTHER),
  "code",
  OTHER,
);
