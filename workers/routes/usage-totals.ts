import type { Context } from "hono";
import { TenantId } from "../../src/protocol/ids.ts";
import { monthText } from "../../src/tenants/calendar-month.ts";
import { amountText } from "../../src/tenants/money.ts";
import { shardName } from "../../src/tenants/tenant-shards.ts";
import type { UsageTotals } from "../../src/tenants/usage-totals.ts";
import { addUsage, noUsage } from "../../src/tenants/usage-totals.ts";
import { DIRECTORY_NAME } from "../directory-object.ts";
import type { EdgeContext } from "../edge-context.ts";
import { unknownThing } from "../unknown-thing.ts";
import { usageOfTenant } from "./usage.ts";

/** `GET /admin/v1/tenants/{tenant}/usage/totals`: what each key has used, and the tenant in this month. */
export async function sumUpUsage({ req, env }: Context<EdgeContext>): Promise<Response> {
  const tenantId = TenantId.safeParse(req.param("tenant"));
  // Only tenants of the configuration exist: a name alone makes no object.
  const isKnown =
    tenantId.success && (await env.DIRECTORY.getByName(DIRECTORY_NAME).hasTenant(tenantId.data));
  if (!isKnown) throw unknownThing("tenant", req.param("tenant"));
  // Of no key; what is asked for is the tenant's.
  const { month, openCount, shardCount } = await usageOfTenant(tenantId.data, "", env);
  const shards = await Promise.all(
    Array.from(
      { length: shardCount },
      async (_, shard) => await env.TENANTS.getByName(shardName(tenantId.data, shard)).usageByKey(),
    ),
  );
  const totalsByKey = new Map<string, UsageTotals>();
  for (const { name, totals: used } of shards.flat()) {
    const sum = totalsByKey.get(name) ?? noUsage();
    addUsage(sum, used);
    totalsByKey.set(name, sum);
  }
  return Response.json(
    {
      tenantId: tenantId.data,
      openRequests: openCount,
      month: {
        month: monthText(month.month),
        tokens: month.tokens,
        reservedTokens: month.reservedTokens,
        spend: amountText(month.spentPicos),
        reservedSpend: amountText(month.reservedPicos),
      },
      keys: [...totalsByKey].map(([name, { spentPicos, ...counts }]) => ({
        name,
        ...counts,
        spend: amountText(spentPicos),
      })),
    },
    { headers: { "cache-control": "no-store" } },
  );
}
