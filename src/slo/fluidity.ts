/** The deadlines of a stream: for its first token, and for each further one after the one before. */
export interface FluidityDeadlines {
  readonly ttftMs: number;
  readonly tbtMs: number;
}

/**
 * Returns the share of its deadlines that a stream met, in 0–1 (the fluidity index of Etalon). A
 * token that comes early leaves its slack to those behind it, as a player's buffer does; one that
 * comes late has missed every deadline that passed meanwhile, and the count begins anew with it.
 * `gapsMs` holds the time to the first token and then every gap between two tokens; a stream
 * without tokens has missed nothing and is 1.
 */
export function fluidityIndex(gapsMs: Iterable<number>, deadlines: FluidityDeadlines): number {
  const { ttftMs, tbtMs } = deadlines;
  let slackMs = 0;
  let met = 0;
  let missed = 0;
  let isFirst = true;
  for (const gapMs of gapsMs) {
    const deadlineMs = isFirst ? ttftMs : tbtMs;
    if (gapMs <= deadlineMs + slackMs) {
      slackMs += deadlineMs - gapMs;
      met += 1;
    } else {
      missed += isFirst
        ? 1 + Math.floor((gapMs - slackMs - ttftMs) / tbtMs)
        : Math.floor((gapMs - slackMs) / tbtMs);
      slackMs = 0;
    }
    isFirst = false;
  }
  const total = met + missed;
  return total === 0 ? 1 : met / total;
}
