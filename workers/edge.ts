import type { Context, Handler } from "hono";
import { Hono } from "hono";
import { GATEWAY_NAME } from "../src/protocol/gateway-health.ts";
import { CLIENT_HEADERS } from "../src/protocol/headers.ts";
import { RequestId } from "../src/protocol/ids.ts";
import { OPERATIONS } from "../src/protocol/operation.ts";
import { CORS_HEADERS, preflightResponse } from "./cors.ts";
import type { EdgeContext } from "./edge-context.ts";
import { errorResponse, problemOf } from "./error-response.ts";
import { rateHeaders } from "./rate-headers.ts";
import { keepCountsOf, requestCounts } from "./request-counts.ts";
import { adminRoutes } from "./routes/admin.ts";
import { listModels, retrieveModel } from "./routes/models.ts";
import { tellMetrics } from "./routes/metrics.ts";
import { performOperation } from "./routes/operation.ts";
import { connectReplica } from "./routes/pools.ts";
import { tellSlo } from "./routes/slo.ts";
import { tellUsage } from "./routes/usage.ts";
import { settingsOf } from "./settings.ts";

export { DirectoryObject } from "./directory-object.ts";
export { PoolObject } from "./pool-object.ts";
export { TenantObject } from "./tenant-object.ts";

const SWITCHING_PROTOCOLS = 101;

const app = new Hono<EdgeContext>();

app.use(async (c, next) => {
  c.set("arrivedAtMs", Date.now());
  c.set("requestId", newRequestId());
  await next();
  // The answer of a pool to a replica is handed on as it is.
  if (c.res.status !== SWITCHING_PROTOCOLS) stamp(c, c.res.headers);
  requestCounts.count(c.req.path, c.res);
  c.executionCtx.waitUntil(requestCounts.sendSoon(keepCountsOf(c.env)));
});

app.options("*", (c) => preflightResponse(c.req.raw.headers));
for (const operation of OPERATIONS) route("POST", operation.path, performOperation(operation));
route("GET", "/v1/models", listModels);
route("GET", "/v1/models/:id{.+}", retrieveModel);
route("GET", "/v1/usage", tellUsage);
route("GET", "/v1/slo", tellSlo);
route("GET", "/internal/pools/:pool", connectReplica);
route("GET", "/health", (c) => {
  settingsOf(c.env);
  return Response.json({ status: "serving", server: GATEWAY_NAME });
});
route("GET", "/metrics", tellMetrics);
app.route("/admin/v1", adminRoutes);
app.notFound(() => errorResponse({ code: "not_found" }));
app.onError((error, c) => errorResponse(problemOf(error, c.var.requestId)));

export default app;

/** Adds a route, and for its other methods the answer that names the right one. */
function route(method: "GET" | "POST", path: string, handle: Handler<EdgeContext>): void {
  app.on(method, path, handle);
  const allow = method === "GET" ? "GET, HEAD, OPTIONS" : "POST, OPTIONS";
  app.all(path, () => errorResponse({ code: "method_not_allowed" }, { allow }));
}

/** Puts on an answer what every answer has. */
function stamp(c: Context<EdgeContext>, headers: Headers): void {
  // Whoever is no page has no use for them.
  if (c.req.header("origin") !== undefined) {
    for (const [name, value] of Object.entries(CORS_HEADERS)) headers.set(name, value);
  }
  if (c.req.method === "OPTIONS") return;
  headers.append("vary", "origin");
  headers.set(CLIENT_HEADERS.requestId, c.var.requestId);
  for (const [name, value] of Object.entries(rateHeaders(c.var.record?.standings ?? {}))) {
    headers.set(name, value);
  }
  headers.set("openai-processing-ms", String(Date.now() - c.var.arrivedAtMs));
}

function newRequestId(): RequestId {
  return RequestId.parse(`req_${crypto.randomUUID().replaceAll("-", "")}`);
}
