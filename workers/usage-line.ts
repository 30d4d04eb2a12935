import { amountText } from "../src/tenants/money.ts";
import type { SettledRow } from "../src/tenants/usage-rows.ts";

/** A counted request as it is told to others: names, numbers and times, never a text or a key. */
export interface UsageLine {
  readonly number: number;
  readonly request_id: string;
  readonly key: string;
  readonly model: string;
  readonly began_at: string;
  readonly settled_at: string;
  readonly how: SettledRow["how"];
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
  readonly cached_tokens: number;
  readonly estimated: boolean;
  readonly spend: string;
}

/** Writes a counted request as others read it. */
export function toUsageLine(row: SettledRow): UsageLine {
  return {
    number: row.number,
    request_id: row.requestId,
    key: row.keyName,
    model: row.modelId,
    began_at: new Date(row.beganAtMs).toISOString(),
    settled_at: new Date(row.settledAtMs).toISOString(),
    how: row.how,
    prompt_tokens: row.promptTokens,
    completion_tokens: row.outputTokens,
    cached_tokens: row.cachedTokens,
    estimated: row.isEstimated,
    spend: amountText(row.costPicos),
  };
}
