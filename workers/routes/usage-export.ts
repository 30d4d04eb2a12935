import type { Context } from "hono";
import { TenantId } from "../../src/protocol/ids.ts";
import { PAGE_MAX, UsageQuery } from "../../src/tenants/admin-requests.ts";
import { shardName } from "../../src/tenants/tenant-shards.ts";
import type { Env } from "../env.ts";
import { toUsageLine } from "../usage-line.ts";
import { DIRECTORY_NAME } from "../directory-object.ts";
import type { EdgeContext } from "../edge-context.ts";
import { GatewayError } from "../gateway-error.ts";
import { unknownThing } from "../unknown-thing.ts";

/**
 * `GET /admin/v1/tenants/{tenant}/usage?after=N&limit=M`: counted requests, one a line, oldest first. The
 * `number` of the last line is the next page's `after`, or its `cursor` where the tenant has several objects; a
 * page without lines is the end for now.
 */
export async function exportUsage(c: Context<EdgeContext>): Promise<Response> {
  const tenantId = TenantId.safeParse(c.req.param("tenant"));
  // Only tenants of the configuration exist: a name alone makes no object.
  const isKnown =
    tenantId.success && (await c.env.DIRECTORY.getByName(DIRECTORY_NAME).hasTenant(tenantId.data));
  if (!isKnown) throw unknownThing("tenant", c.req.param("tenant"));
  const page = UsageQuery.safeParse(c.req.query());
  if (!page.success) {
    throw new GatewayError({
      code: "invalid_value",
      message: `Expected 'after' to be a number of a line, and 'limit' to be from 1 to ${PAGE_MAX}`,
    });
  }
  const { after, limit } = page.data;
  const lines = await linesOf({ tenantId: tenantId.data, after, limit }, c.env);
  return new Response(lines.map((line) => `${JSON.stringify(line)}\n`).join(""), {
    headers: { "content-type": "application/x-ndjson", "cache-control": "no-store" },
  });
}

/** One object after the other, each in the order of its numbers. */
async function linesOf(
  page: { readonly tenantId: TenantId; readonly after: readonly number[]; readonly limit: number },
  env: Env,
): Promise<object[]> {
  const tenantOf = (shard: number) => env.TENANTS.getByName(shardName(page.tenantId, shard));
  const shardCount = await tenantOf(0).shardCount();
  const after = Array.from({ length: shardCount }, (_, shard) => page.after[shard] ?? 0);
  const lines: object[] = [];
  for (let shard = 0; shard < shardCount && lines.length < page.limit; shard += 1) {
    // oxlint-disable-next-line no-await-in-loop -- how much the next one may add is known only then
    const rows = await tenantOf(shard).settledAfter(after[shard] ?? 0, page.limit - lines.length);
    for (const row of rows) {
      after[shard] = row.number;
      const isSpread = shardCount > 1 && { shard, cursor: after.join(".") };
      lines.push({ ...toUsageLine(row), ...isSpread });
    }
  }
  return lines;
}
