import type { Context } from "hono";
import { Hono } from "hono";
import { TenantId } from "../../src/protocol/ids.ts";
import { validate } from "../../src/protocol/validation.ts";
import {
  AddTenantRequest,
  ChangeTenantRequest,
  NamePage,
  RemovalQuery,
} from "../../src/tenants/admin-requests.ts";
import { orRefuse } from "../apply-configuration.ts";
import type { TenantChange } from "../change-tenant.ts";
import { DIRECTORY_NAME } from "../directory-object.ts";
import type { EdgeContext } from "../edge-context.ts";
import { errorResponse } from "../error-response.ts";
import { GatewayError } from "../gateway-error.ts";
import { orThrow, readJsonObject } from "../json-body.ts";
import { unknownThing } from "../unknown-thing.ts";
import { keyRoutes } from "./admin-keys.ts";
import { readQuery } from "./admin-query.ts";
import { purgeCache } from "./cache-purge.ts";
import { exportUsage } from "./usage-export.ts";
import { sumUpUsage } from "./usage-totals.ts";

const BODY_BYTES_MAX = 500_000;

/** `/admin/v1/tenants`: each change makes a version of the configuration. */
export const tenantRoutes = new Hono<EdgeContext>()
  .get("/", listTenants)
  .post("/", addTenant)
  .all("/", () => errorResponse({ code: "method_not_allowed" }, { allow: "GET, HEAD, POST" }))
  .get("/:tenant", showTenant)
  .patch("/:tenant", changeTenant)
  .delete("/:tenant", removeTenant)
  .all("/:tenant", () =>
    errorResponse({ code: "method_not_allowed" }, { allow: "GET, HEAD, PATCH, DELETE" }),
  )
  .route("/:tenant/keys", keyRoutes)
  .get("/:tenant/usage", exportUsage)
  .all("/:tenant/usage", () =>
    errorResponse({ code: "method_not_allowed" }, { allow: "GET, HEAD" }),
  )
  .post("/:tenant/cache/purge", purgeCache)
  .all("/:tenant/cache/purge", () =>
    errorResponse({ code: "method_not_allowed" }, { allow: "POST" }),
  )
  .get("/:tenant/usage/totals", sumUpUsage)
  .all("/:tenant/usage/totals", () =>
    errorResponse({ code: "method_not_allowed" }, { allow: "GET, HEAD" }),
  );

async function listTenants(c: Context<EdgeContext>): Promise<Response> {
  const { after, limit } = readQuery(NamePage, c.req.query());
  return c.json({ tenants: await directoryOf(c).tenants(after, limit) });
}

async function showTenant(c: Context<EdgeContext>): Promise<Response> {
  const tenant = await directoryOf(c).tenant(tenantIdOf(c));
  if (tenant === undefined) throw unknownThing("tenant", c.req.param("tenant"));
  return c.json({ tenant });
}

async function addTenant(c: Context<EdgeContext>): Promise<Response> {
  const body = await readJsonObject(c.req.raw, BODY_BYTES_MAX);
  const { tenantId, tenant, ...options } = orThrow(validate(AddTenantRequest, body));
  return change(c, { kind: "add", tenantId, settings: JSON.stringify(tenant) }, options);
}

async function changeTenant(c: Context<EdgeContext>): Promise<Response> {
  const body = await readJsonObject(c.req.raw, BODY_BYTES_MAX);
  const { tenant, ...options } = orThrow(validate(ChangeTenantRequest, body));
  const settings = JSON.stringify(tenant);
  return change(c, { kind: "change", tenantId: tenantIdOf(c), settings }, options);
}

async function removeTenant(c: Context<EdgeContext>): Promise<Response> {
  const options = readQuery(RemovalQuery, c.req.query());
  return change(c, { kind: "remove", tenantId: tenantIdOf(c) }, options);
}

async function change(
  c: Context<EdgeContext>,
  wish: TenantChange,
  options: { readonly expectedVersion?: number; readonly reason?: string },
): Promise<Response> {
  const authorship = { reason: "", ...options, actor: c.var.actor };
  const verdict = await directoryOf(c).changeTenant(wish, authorship);
  if (verdict.kind === "unknown-tenant") throw unknownThing("tenant", wish.tenantId);
  if (verdict.kind === "unconfigured") {
    const message = "Nothing is configured yet: expected a configuration to be applied first";
    throw new GatewayError({ code: "invalid_value", message });
  }
  if (verdict.kind === "name-taken") {
    const message = `There is a tenant '${wish.tenantId}' already`;
    throw new GatewayError({ code: "invalid_value", message, param: "tenantId" });
  }
  if (verdict.kind === "refused") {
    const { param } = verdict.problem;
    const path = param === undefined ? "tenant" : `tenant.${param}`;
    throw new GatewayError({ ...verdict.problem, param: path });
  }
  const { kind, ...outcome } = orRefuse(verdict, options.expectedVersion);
  return c.json({ tenantId: wish.tenantId, ...outcome, isChanged: kind === "applied" });
}

function directoryOf(c: Context<EdgeContext>) {
  return c.env.DIRECTORY.getByName(DIRECTORY_NAME);
}

function tenantIdOf(c: Context<EdgeContext>): TenantId {
  const tenantId = TenantId.safeParse(c.req.param("tenant"));
  if (!tenantId.success) throw unknownThing("tenant", c.req.param("tenant"));
  return tenantId.data;
}
