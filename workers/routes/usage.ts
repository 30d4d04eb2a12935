import type { Context } from "hono";
import { monthText } from "../../src/tenants/calendar-month.ts";
import { amountText, picosOfMicros } from "../../src/tenants/money.ts";
import type { TenantId } from "../../src/protocol/ids.ts";
import { shardName } from "../../src/tenants/tenant-shards.ts";
import { addMonths } from "../../src/tenants/usage-ledger.ts";
import { addUsage } from "../../src/tenants/usage-totals.ts";
import { authenticate } from "../auth.ts";
import type { EdgeContext } from "../edge-context.ts";
import type { Env } from "../env.ts";
import { settingsOf } from "../settings.ts";
import type { KeyUsage } from "../tenant-object.ts";

/** `GET /v1/usage`: what the calling key has used, and where its tenant stands in this month. */
export async function tellUsage({ req, env, var: { arrivedAtMs } }: Context<EdgeContext>) {
  const { tenant, keyName } = await authenticate(req.raw.headers, {
    env,
    settings: settingsOf(env),
    nowMs: arrivedAtMs,
    scope: "usage",
  });
  const usage = await usageOfTenant(tenant.tenantId, keyName, env);
  const { totals, month } = usage;
  const { tokensPerMonthMax, spendPerMonthMaxMicros } = tenant;
  return Response.json(
    {
      object: "usage",
      key: keyName,
      requests: totals.requests,
      prompt_tokens: totals.promptTokens,
      completion_tokens: totals.outputTokens,
      cached_tokens: totals.cachedTokens,
      estimated_requests: totals.estimatedRequests,
      spend: amountText(totals.spentPicos),
      tenant: {
        open_requests: usage.openCount,
        month: monthText(month.month),
        month_tokens: month.tokens,
        month_tokens_reserved: month.reservedTokens,
        month_tokens_limit: tokensPerMonthMax ?? null,
        month_spend: amountText(month.spentPicos),
        month_spend_reserved: amountText(month.reservedPicos),
        month_spend_limit:
          spendPerMonthMaxMicros === undefined
            ? null
            : amountText(picosOfMicros(spendPerMonthMaxMicros)),
      },
    },
    { headers: { "cache-control": "no-store" } },
  );
}

/** What a key has used at all of its tenant's objects. */
export async function usageOfTenant(
  tenantId: TenantId,
  keyName: string,
  env: Env,
): Promise<KeyUsage> {
  const askShard = (shard: number): Promise<KeyUsage> =>
    env.TENANTS.getByName(shardName(tenantId, shard)).usageOf(keyName);
  const first = await askShard(0);
  const further = Array.from({ length: first.shardCount - 1 }, (_, index) => askShard(index + 1));
  return (await Promise.all(further)).reduce(addShard, first);
}

function addShard(sum: KeyUsage, shard: KeyUsage): KeyUsage {
  const totals = { ...sum.totals };
  addUsage(totals, shard.totals);
  const month = addMonths(sum.month, shard.month);
  return { ...sum, totals, month, openCount: sum.openCount + shard.openCount };
}
