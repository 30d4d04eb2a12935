import type { Context } from "hono";
import { TenantId } from "../../src/protocol/ids.ts";
import { DIRECTORY_NAME } from "../directory-object.ts";
import type { EdgeContext } from "../edge-context.ts";
import { unknownThing } from "../unknown-thing.ts";

/**
 * `POST /admin/v1/tenants/{tenant}/cache/purge`: from when edges have heard of it, within seconds, nothing is
 * found that was cached for the tenant before, be it prompts or answers.
 */
export async function purgeCache(c: Context<EdgeContext>): Promise<Response> {
  const tenantId = TenantId.safeParse(c.req.param("tenant"));
  const generation = tenantId.success
    ? await c.env.DIRECTORY.getByName(DIRECTORY_NAME).purgeCache(tenantId.data, c.var.actor)
    : undefined;
  if (generation === undefined) throw unknownThing("tenant", c.req.param("tenant"));
  return c.json({ generation });
}
