/**
 * What a server says of itself, in our words. What it does not say is absent, never 0: a queue of
 * which nothing is known is not an empty one.
 */
export interface EngineSignals {
  /** Whether it serves; false while it loads, drains or has failed. */
  readonly isReady?: boolean;
  /** Requests of everybody that it computes now. */
  readonly running?: number;
  /** Requests of everybody that wait inside it. */
  readonly queued?: number;
  /** Prompt tokens of those, neither computed nor cached. */
  readonly queuedTokens?: number;
  /** Which share of its KV is in use, from 0 to 1. */
  readonly kvUsedRatio?: number;
  /** Which share of prompt tokens it finds cached, from 0 to 1. */
  readonly prefixHitRatio?: number;
  /** Requests that it computes at once at the most. */
  readonly runningMax?: number;
  /** All names by which it serves models, adapters among them; it is not asked for them every time. */
  readonly models?: readonly string[];
  /** Beside those: it answers whichever name it is asked by, so that they say what it is and not what it refuses. */
  readonly answersAnyName?: true;
}

type LoadSignals = Omit<EngineSignals, "models" | "answersAnyName">;

/** Leaves out what is no number that could be meant: `NaN` is what a gauge says before it was set. */
export function signalsOf(found: {
  readonly [name in keyof LoadSignals]: LoadSignals[name] | undefined;
}): EngineSignals {
  const told = Object.entries(found).filter(([name, value]) => {
    if (typeof value === "boolean") return true;
    if (value === undefined || !Number.isFinite(value) || value < 0) return false;
    return !name.endsWith("Ratio") || value <= 1;
  });
  return Object.fromEntries(told);
}

/** Adds up what ranks or engines of one server say; absent where none says anything. */
export function sumOf(values: readonly (number | undefined)[]): number | undefined {
  const told = values.filter((value) => value !== undefined);
  return told.length === 0 ? undefined : told.reduce((sum, value) => sum + value, 0);
}

/** The fullest of several ranks: the next request may have to wait for just that one. */
export function maxOf(values: readonly (number | undefined)[]): number | undefined {
  const told = values.filter((value) => value !== undefined);
  return told.length === 0 ? undefined : Math.max(...told);
}
