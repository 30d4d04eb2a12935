import type { Settlement } from "../src/tenants/rate-limits.ts";
import type { Call } from "./call.ts";
import type { Env } from "./env.ts";
import { GatewayError } from "./gateway-error.ts";
import { giveBackOnce } from "./give-back-once.ts";
import { limitProblem } from "./refusal.ts";

/** A call's place among those of its tenant, and what it has reserved of the tenant's tokens. */
export interface HeldPermit {
  /**
   * Gives the place back and settles the tokens; `undefined` leaves them as reserved. Never rejects;
   * only the first call counts.
   */
  release(settlement: Settlement | undefined): Promise<void>;
}

/**
 * Takes all that the tenant's limits ask for in one call of its object, or throws
 * `rate_limit_exceeded`.
 */
export async function acquirePermit(call: Call, env: Env): Promise<HeldPermit> {
  const { requestId, tenant, tokensMax, record } = call;
  const { concurrencyMax, requestsPerMinuteMax, tokensPerMinuteMax } = tenant;
  const limitsMax = {
    ...(concurrencyMax !== undefined && { concurrencyMax }),
    ...(requestsPerMinuteMax !== undefined && { requestsPerMinuteMax }),
    ...(tokensPerMinuteMax !== undefined && { tokensPerMinuteMax }),
  };
  if (Object.keys(limitsMax).length === 0) return { release: async () => {} };
  const tenantObject = env.TENANTS.getByName(tenant.tenantId);
  const answer = await tenantObject.acquire({ requestId, tokensMax, limitsMax });
  // Copied, since what an answer brings goes when its stub is disposed of.
  record.standings = { ...answer.standings };
  if (answer.kind === "rejected") {
    record.limitedBy = answer.limit;
    throw new GatewayError(limitProblem(answer, call));
  }
  const { permit } = answer;
  return { release: giveBackOnce(permit, (settlement) => permit.release(settlement)) };
}

/**
 * What a call took of its tenant's tokens that has an answer, be it broken. Without the replica's own
 * counts a chunk is a token, and of an answer that came whole nobody can say more than its bound.
 */
export function settlementOfAnswer({ record, promptTokens }: Call): Settlement | undefined {
  const { usage, stream } = record;
  if (usage !== undefined) {
    return { kind: "used", tokens: usage.prompt_tokens + usage.completion_tokens };
  }
  return stream && { kind: "used", tokens: promptTokens + stream.outputTokens };
}

/**
 * What a call took that ends without an answer: nothing when it never reached a replica, and nothing
 * but the request where a replica failed. Who leaves has made one compute all the same.
 */
export function settlementOfFailure(call: Call): Settlement | undefined {
  const { record, watch } = call;
  if (record.attempts === 0) return { kind: "refunded" };
  return watch.reason === "client-gone" ? settlementOfAnswer(call) : { kind: "used", tokens: 0 };
}
