import type { LimitsMax } from "../src/tenants/tenant-limits.ts";
import { placeOf, shardName } from "../src/tenants/tenant-shards.ts";
import type { UsageEnding } from "../src/tenants/usage-ending.ts";
import type { UsageRow } from "../src/tenants/usage-rows.ts";
import { askAnew } from "./ask-anew.ts";
import type { Call } from "./call.ts";
import type { Env } from "./env.ts";
import { GatewayError } from "./gateway-error.ts";
import type { SloTold } from "./slo-told.ts";
import { LedgerLine } from "./ledger-line.ts";
import { limitProblem } from "./refusal.ts";

/** A call's place among those of its tenant, what it has reserved, and its row in the ledger. */
export interface HeldPermit {
  /**
   * Resolves when it is on disk that the call has begun: before that its client must see no token. The
   * tenant's object is asked for it once it is read first. Never rejects.
   */
  readonly recorded: Promise<void>;
  /**
   * Gives the place back at once, settles what the call has used, and tells what became of it; resolves when
   * the former is on disk.
   * Never rejects; only the first call counts.
   */
  release(ending: UsageEnding, told: SloTold | undefined): Promise<void>;
}

/** An object that is away is mostly back by then. */
const AWAY_RETRY_MS = 1_000;

/**
 * Takes all that the tenant's limits ask for in one call of its object, or throws
 * `rate_limit_exceeded` or `insufficient_quota`.
 */
export async function acquirePermit(call: Call, env: Env): Promise<HeldPermit> {
  const { tenant, record } = call;
  const row = rowOf(call);
  const place = placeOf(tenant.tenantId, tenant.shards ?? 1, call.requestId);
  // Whatever is said of a request later is said to the object that has its row.
  const tenantOf = () => env.TENANTS.getByName(shardName(place.tenantId, place.shard));
  const request = { row, limitsMax: limitsMaxOf(call), className: call.promise.className };
  const answer = await askAnew(async () => tenantOf().acquire(request, place));
  if (answer.kind === "away") {
    throw new GatewayError({ code: "server_is_overloaded", retryAfterMs: AWAY_RETRY_MS });
  }
  // Copied, since what an answer brings goes when its stub is disposed of.
  record.standings = { ...answer.standings };
  if (answer.kind === "rejected") {
    record.limitedBy = answer.limit;
    throw new GatewayError(limitProblem(answer, call));
  }
  return new LedgerLine({
    row,
    permit: answer.permit,
    tenantOf,
    outputTokens: () => record.stream?.outputTokens ?? 0,
  });
}

function limitsMaxOf({ tenant }: Call): LimitsMax {
  const { concurrencyMax, requestsPerMinuteMax, tokensPerMinuteMax, tokensPerMonthMax } = tenant;
  const { spendPerMonthMaxMicros } = tenant;
  return {
    ...(concurrencyMax !== undefined && { concurrencyMax }),
    ...(requestsPerMinuteMax !== undefined && { requestsPerMinuteMax }),
    ...(tokensPerMinuteMax !== undefined && { tokensPerMinuteMax }),
    ...(tokensPerMonthMax !== undefined && { tokensPerMonthMax }),
    ...(spendPerMonthMaxMicros !== undefined && { spendPerMonthMaxMicros }),
  };
}

function rowOf(call: Call): UsageRow {
  const { requestId, keyName, target, promptTokens, tokensMax, pricing } = call;
  const { modelId, poolId } = target.model;
  return {
    requestId,
    keyName,
    modelId,
    poolId,
    beganAtMs: Date.now(),
    promptTokens,
    tokensMax,
    ...(pricing !== undefined && { pricing }),
  };
}
