import type { Context } from "hono";
import { Hono } from "hono";
import { TokenBuckets } from "../../src/base/token-buckets.ts";
import { AuditQuery } from "../../src/tenants/admin-requests.ts";
import { authenticateAdmin } from "../auth.ts";
import { DIRECTORY_NAME } from "../directory-object.ts";
import type { EdgeContext } from "../edge-context.ts";
import { errorResponse } from "../error-response.ts";
import { GatewayError } from "../gateway-error.ts";
import { settingsOf } from "../settings.ts";
import { configurationRoutes } from "./admin-configuration.ts";
import { poolRoutes } from "./admin-pools.ts";
import { readQuery } from "./admin-query.ts";
import { tenantRoutes } from "./admin-tenants.ts";
import { tellAllSlo } from "./slo.ts";

/** Of one administrator at one isolate: more than people and their programs need. */
const ADMIN_RATE = { burst: 200, perSecond: 50 };
const ADMINS_MAX = 1_000;

// One per isolate: it is to keep the Directory, which is one, from a program that runs wild.
const adminRates = new TokenBuckets(ADMIN_RATE, ADMINS_MAX);

/** `/admin/v1`: makes a configuration live and tells how the pools are. Needs the admin key, or one of scope `admin`. */
export const adminRoutes = new Hono<EdgeContext>()
  .use(async (c, next) => {
    const settings = settingsOf(c.env);
    const nowMs = c.var.arrivedAtMs;
    const actor = await authenticateAdmin(c.req.raw.headers, { env: c.env, settings, nowMs });
    c.set("actor", actor);
    const retryAfterMs = adminRates.take(actor, nowMs);
    if (retryAfterMs !== undefined) {
      const message = "Too many requests to the admin API";
      throw new GatewayError({ code: "rate_limit_exceeded", message, retryAfterMs });
    }
    await next();
  })
  .route("/configuration", configurationRoutes)
  .get("/status", describeStatus)
  .all("/status", () => errorResponse({ code: "method_not_allowed" }, { allow: "GET, HEAD" }))
  .get("/slo", tellAllSlo)
  .all("/slo", () => errorResponse({ code: "method_not_allowed" }, { allow: "GET, HEAD" }))
  .route("/tenants", tenantRoutes)
  .get("/audit", listDeeds)
  .all("/audit", () => errorResponse({ code: "method_not_allowed" }, { allow: "GET, HEAD" }))
  .route("/pools", poolRoutes);

/** Answers with the live version and every pool. A pool whose object is away does not hide the others. */
async function describeStatus(c: Context<EdgeContext>): Promise<Response> {
  const { mode } = settingsOf(c.env);
  const { version, poolIds } = await c.env.DIRECTORY.getByName(DIRECTORY_NAME).summary();
  const statuses = await Promise.allSettled(
    poolIds.map((poolId) => c.env.POOLS.getByName(poolId).status(poolId)),
  );
  const pools = statuses.map((status, index) => ({
    poolId: poolIds[index],
    ...(status.status === "fulfilled" ? status.value : { isAway: true, replicas: [] }),
  }));
  return c.json({ mode, configurationVersion: version, pools });
}

/** Answers with what was done by this API, newest first. */
async function listDeeds(c: Context<EdgeContext>): Promise<Response> {
  const { before, limit } = readQuery(AuditQuery, c.req.query());
  return c.json({ entries: await c.env.DIRECTORY.getByName(DIRECTORY_NAME).audit(before, limit) });
}
