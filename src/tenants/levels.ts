import { costMaxOf } from "./model-price.ts";
import { microsCeilOf } from "./money.ts";
import type { LimitsMax } from "./tenant-limits.ts";
import type { UsageRow } from "./usage-rows.ts";

/** What a tenant's limits bound, each by a number. */
export const LEVEL_NAMES = [
  "concurrency",
  "requests",
  "tokens",
  "monthTokens",
  "monthMicros",
] as const;
export type LevelName = (typeof LEVEL_NAMES)[number];

/**
 * So much of each limit: running now, begun within the minute, used and reserved of the month. Money is in
 * millionths of the currency, rounded up.
 */
export type Levels = Readonly<Record<LevelName, number>>;

export const NO_LEVELS: Levels = levelsBy(() => 0);

export function levelsBy(read: (name: LevelName) => number): Levels {
  return {
    concurrency: read("concurrency"),
    requests: read("requests"),
    tokens: read("tokens"),
    monthTokens: read("monthTokens"),
    monthMicros: read("monthMicros"),
  };
}

/** A tenant's limits as levels; `Infinity` where there is none. */
export function limitLevelsOf(limitsMax: LimitsMax): Levels {
  return {
    concurrency: limitsMax.concurrencyMax ?? Infinity,
    requests: limitsMax.requestsPerMinuteMax ?? Infinity,
    tokens: limitsMax.tokensPerMinuteMax ?? Infinity,
    monthTokens: limitsMax.tokensPerMonthMax ?? Infinity,
    monthMicros: limitsMax.spendPerMonthMaxMicros ?? Infinity,
  };
}

/** The same limits with other numbers; what is not limited stays so. */
export function limitsMaxOf(limitsMax: LimitsMax, levels: Levels): LimitsMax {
  return {
    ...(limitsMax.concurrencyMax !== undefined && { concurrencyMax: levels.concurrency }),
    ...(limitsMax.requestsPerMinuteMax !== undefined && { requestsPerMinuteMax: levels.requests }),
    ...(limitsMax.tokensPerMinuteMax !== undefined && { tokensPerMinuteMax: levels.tokens }),
    ...(limitsMax.tokensPerMonthMax !== undefined && { tokensPerMonthMax: levels.monthTokens }),
    ...(limitsMax.spendPerMonthMaxMicros !== undefined && {
      spendPerMonthMaxMicros: levels.monthMicros,
    }),
  };
}

/** The most that one request takes of each. */
export function needOf({ tokensMax, promptTokens, pricing }: UsageRow): Levels {
  const monthMicros = microsCeilOf(costMaxOf(promptTokens, pricing));
  return { concurrency: 1, requests: 1, tokens: tokensMax, monthTokens: tokensMax, monthMicros };
}
