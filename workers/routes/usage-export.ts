import type { Context } from "hono";
import * as z from "zod";
import { TenantId } from "../../src/protocol/ids.ts";
import { toUsageLine } from "../usage-line.ts";
import { DIRECTORY_NAME } from "../directory-object.ts";
import type { EdgeContext } from "../edge-context.ts";
import { GatewayError } from "../gateway-error.ts";

const ROWS_MAX = 1_000;

const digits = z.string().regex(/^\d{1,15}$/);
const Page = z.object({
  after: digits.transform(Number).default(0),
  limit: digits.transform(Number).pipe(z.int().min(1).max(ROWS_MAX)).default(ROWS_MAX),
});

/**
 * `GET /admin/v1/tenants/{tenant}/usage?after=N&limit=M`: counted requests, one a line, oldest first. The
 * `number` of the last line is the next page's `after`; a page without lines is the end for now.
 */
export async function exportUsage(c: Context<EdgeContext>): Promise<Response> {
  const tenantId = TenantId.safeParse(c.req.param("tenant"));
  // Only tenants of the configuration exist: a name alone makes no object.
  const isKnown =
    tenantId.success && (await c.env.DIRECTORY.getByName(DIRECTORY_NAME).hasTenant(tenantId.data));
  if (!isKnown) throw new GatewayError({ code: "not_found" });
  const page = Page.safeParse(c.req.query());
  if (!page.success) {
    throw new GatewayError({
      code: "invalid_value",
      message: `Expected 'after' to be a number of a line, and 'limit' to be from 1 to ${ROWS_MAX}`,
    });
  }
  const { after, limit } = page.data;
  const rows = await c.env.TENANTS.getByName(tenantId.data).settledAfter(after, limit);
  return new Response(rows.map((row) => `${JSON.stringify(toUsageLine(row))}\n`).join(""), {
    headers: { "content-type": "application/x-ndjson", "cache-control": "no-store" },
  });
}
