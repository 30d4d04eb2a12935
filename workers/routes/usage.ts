import type { Context } from "hono";
import { monthText } from "../../src/tenants/calendar-month.ts";
import { amountText, picosOfMicros } from "../../src/tenants/money.ts";
import { authenticate } from "../auth.ts";
import type { EdgeContext } from "../edge-context.ts";
import { settingsOf } from "../settings.ts";

/** `GET /v1/usage`: what the calling key has used, and where its tenant stands in this month. */
export async function tellUsage({ req, env, var: { arrivedAtMs } }: Context<EdgeContext>) {
  const { tenant, keyName } = await authenticate(
    req.raw.headers,
    env,
    settingsOf(env),
    arrivedAtMs,
  );
  const usage = await env.TENANTS.getByName(tenant.tenantId).usageOf(keyName);
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
