/** Tokens looked up and found at admissions; what preempted sequences find again stands apart. */
export interface PrefixStatistics {
  readonly queriedTokens: number;
  readonly hitTokens: number;
  /** Of all hits, those that were loaded from below the pool. */
  readonly loadedTokens: number;
  readonly resumedQueriedTokens: number;
  readonly resumedHitTokens: number;
}

export const NO_PREFIX_STATISTICS: PrefixStatistics = {
  queriedTokens: 0,
  hitTokens: 0,
  loadedTokens: 0,
  resumedQueriedTokens: 0,
  resumedHitTokens: 0,
};

/** Adds one admission to statistics. */
export function countAdmission(
  counted: PrefixStatistics,
  admission: {
    readonly queriedTokens: number;
    readonly hitTokens: number;
    readonly loadedTokens: number;
    readonly isResumed: boolean;
  },
): PrefixStatistics {
  const { queriedTokens, hitTokens, isResumed } = admission;
  const loadedTokens = counted.loadedTokens + admission.loadedTokens;
  return isResumed
    ? {
        ...counted,
        loadedTokens,
        resumedQueriedTokens: counted.resumedQueriedTokens + queriedTokens,
        resumedHitTokens: counted.resumedHitTokens + hitTokens,
      }
    : {
        ...counted,
        loadedTokens,
        queriedTokens: counted.queriedTokens + queriedTokens,
        hitTokens: counted.hitTokens + hitTokens,
      };
}
