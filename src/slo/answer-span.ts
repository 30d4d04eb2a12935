/** Bounds every answer, from the request's arrival to its last token. SDKs give up after as long. */
export const ANSWER_MS_MAX = 600_000;

/** For what is on its way when an answer ends, and for clocks that move only with I/O. */
const SLACK_MS = 60_000;

/**
 * What is held for a request ends by itself after so long. Longer than any request may take, so that it is
 * never taken from one that still runs; who forgets to give it back blocks others no longer than that.
 */
export const HOLD_MS_MAX = ANSWER_MS_MAX + SLACK_MS;
