/**
 * How an engine keeps the TBT targets of those that decode while it prefills others: by what it plans a
 * step, and whoever forecasts it has to reckon with the same.
 */

/** What of a TBT target a step is planned to take: a prediction is a mean, and about half of the steps take longer. */
export const KEPT_TARGET_RATIO = 0.9;

/** Prefill that a step computes however long it takes, so that decodes hold nobody up for good. */
export const PREFILL_TOKENS_MIN = 16;
