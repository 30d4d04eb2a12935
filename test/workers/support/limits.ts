import { env } from "cloudflare:workers";
import { expect, vi } from "vitest";
import { RequestId } from "../../../src/protocol/ids.ts";
import type { RateStandings } from "../../../src/tenants/rate-limits.ts";
import type { RateStanding } from "../../../src/tenants/rate-window.ts";
import type { LimitsMax } from "../../../src/tenants/tenant-limits.ts";
import type { UsageRow } from "../../../src/tenants/usage-rows.ts";
import { WAIT } from "./gateway.ts";

/** What is taken down of a request of a test before it begins. */
export function aRow(wish: Partial<UsageRow> = {}): UsageRow {
  return {
    requestId: RequestId.parse(crypto.randomUUID()),
    keyName: "test",
    modelId: "m",
    beganAtMs: Date.now(),
    promptTokens: 0,
    tokensMax: 10,
    ...wish,
  };
}

/** Reads how a tenant's limits stand by a request that is too large for them, and so takes nothing. */
async function standingsOf(
  tenantId: string,
  limitsMax: LimitsMax & { tokensPerMinuteMax: number },
): Promise<RateStandings> {
  const answer = await env.TENANTS.getByName(tenantId).acquire({
    row: aRow({ tokensMax: limitsMax.tokensPerMinuteMax + 1 }),
    limitsMax,
  });
  if (answer.kind === "away") throw new Error("An object that is one of one has all of it");
  return { ...answer.standings };
}

/** Says how many requests and tokens are used of a tenant's minute. */
export async function usedOf(
  tenantId: string,
  limitsMax: LimitsMax & { tokensPerMinuteMax: number },
): Promise<readonly [requests: number, tokens: number]> {
  const { requests, tokens } = await standingsOf(tenantId, limitsMax);
  return [usedIn(requests), usedIn(tokens)];
}

function usedIn({
  limit,
  remaining,
}: Pick<RateStanding, "limit" | "remaining"> = NO_LIMIT): number {
  return limit - remaining;
}

const NO_LIMIT = { limit: 0, remaining: 0 };

/** Waits until so much is used: of a call whose client has left, the end is nothing to wait for. */
export async function settlesAt(
  used: readonly [requests: number, tokens: number],
  ...asked: Parameters<typeof usedOf>
): Promise<void> {
  await vi.waitFor(async () => expect(await usedOf(...asked)).toEqual(used), WAIT);
}

/** From now on, for the rest of the test, every clock is ahead by so much. */
export function skipTime(aheadMs: number): void {
  const now = Date.now;
  vi.spyOn(Date, "now").mockImplementation(() => now() + aheadMs);
}
