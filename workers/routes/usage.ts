import type { Context } from "hono";
import { monthText } from "../../src/tenants/calendar-month.ts";
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
  const { tokensPerMonthMax } = tenant;
  return Response.json(
    {
      object: "usage",
      key: keyName,
      requests: totals.requests,
      prompt_tokens: totals.promptTokens,
      completion_tokens: totals.outputTokens,
      cached_tokens: totals.cachedTokens,
      estimated_requests: totals.estimatedRequests,
      tenant: {
        open_requests: usage.openCount,
        month: monthText(month.month),
        month_tokens: month.tokens,
        month_tokens_reserved: month.reservedTokens,
        month_tokens_limit: tokensPerMonthMax ?? null,
      },
    },
    { headers: { "cache-control": "no-store" } },
  );
}
