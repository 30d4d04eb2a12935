import * as z from "zod";
import { PoolId, RequestId } from "../protocol/ids.ts";
import { RequestPricing } from "./model-price.ts";
import type { UsageTotals } from "./usage-totals.ts";

const Tokens = z.int().min(0);
/** What was stored before there were prices has cost nothing. */
const SpentPicos = z.bigint().min(0n).default(0n);

const RowNames = z.strictObject({
  requestId: RequestId,
  keyName: z.string(),
  modelId: z.string(),
  /** When its tenant was asked for a permit, by the clock of the edge. */
  beganAtMs: z.number(),
});

/** What is taken down of a request before it begins. */
export const UsageRow = RowNames.extend({
  /** Whose replicas may know what it has cost; absent in rows of before that was asked. */
  poolId: PoolId.exactOptional(),
  /** As estimated. */
  promptTokens: Tokens,
  /** The most that it can come to, prompt and output together. */
  tokensMax: Tokens,
  /** Absent where its model has no price: it costs nothing. */
  pricing: RequestPricing.exactOptional(),
});
export type UsageRow = z.infer<typeof UsageRow>;

/** A request that is under way, or whose end is not known. */
export const OpenRow = UsageRow.extend({
  /** Output that was heard of. */
  outputTokens: Tokens.exactOptional(),
  /** When it is settled by what is known of it, should nobody settle it before. */
  settleByAtMs: z.number(),
});
export type OpenRow = z.infer<typeof OpenRow>;

/** One request that was counted. */
export const SettledRow = RowNames.extend({
  /** From 1 on, without gaps. */
  number: z.int().positive(),
  settledAtMs: z.number(),
  how: z.enum(["counted", "estimated", "unknown", "orphaned"]),
  promptTokens: Tokens,
  outputTokens: Tokens,
  cachedTokens: Tokens,
  isEstimated: z.boolean(),
  costPicos: SpentPicos,
});
export type SettledRow = z.infer<typeof SettledRow>;

export const StoredTotals = z.strictObject({
  requests: Tokens,
  promptTokens: Tokens,
  outputTokens: Tokens,
  cachedTokens: Tokens,
  estimatedRequests: Tokens,
  spentPicos: SpentPicos,
}) satisfies z.ZodType<UsageTotals>;

/** What of a ledger changes with every request. */
export const LedgerHead = z.strictObject({
  totals: StoredTotals,
  /** Of keys that are no longer told apart. */
  forgottenKeys: StoredTotals,
  /** Rows ever opened, and those of them that came to nothing. */
  opened: z.int().min(0),
  refunded: z.int().min(0),
  month: z.strictObject({ number: z.int().min(0), tokens: Tokens, spentPicos: SpentPicos }),
  /** When the latest of those began whose ids are remembered no more. */
  forgottenUntilAtMs: z.number(),
});
export type LedgerHead = z.infer<typeof LedgerHead>;

/** All that a ledger remembers. */
export interface UsageLedgerState extends LedgerHead {
  readonly open: Map<RequestId, OpenRow>;
  /** By the key's name, the one used last at the end. */
  readonly totalsByKey: Map<string, UsageTotals>;
  /** With when they began, oldest settlement first. */
  readonly settledIds: Map<RequestId, number>;
  /** Of the oldest settled row that is still kept, or the next one's where there is none. */
  firstKeptNumber: number;
}

/** Puts a ledger together again from what is stored of it: of the settled rows the newest ones. */
export function toLedgerState(stored: {
  readonly head: LedgerHead;
  readonly open: readonly OpenRow[];
  readonly keys: readonly (readonly [name: string, totals: UsageTotals])[];
  /** Oldest first. */
  readonly settled: readonly SettledRow[];
  /** Of all that are kept, also those that are older. */
  readonly firstKeptNumber: number | undefined;
}): UsageLedgerState {
  const { head, open, keys, settled } = stored;
  return {
    ...head,
    open: new Map(open.map((row) => [row.requestId, row])),
    totalsByKey: new Map(keys),
    settledIds: new Map(settled.map(({ requestId, beganAtMs }) => [requestId, beganAtMs])),
    firstKeptNumber: stored.firstKeptNumber ?? head.totals.requests + 1,
  };
}
