/** So much of its targets a tenant leaves at the most, to those who have had less than it. */
const RATIO_MAX = 0.1;
/** A tenant that is ahead by what the whole pool does in this time leaves all of that. */
const FULL_LEAD_MS = 300;

/** What one leaves besides whose requests cost more than is foreseen: nobody knows yet what it takes. */
const SURPRISING_RATIO = 0.2;

/**
 * By how much of its targets a tenant's excess leaves more room than that of others, in [0, 1]: the more,
 * the further it is ahead of somebody who waits, and more again while it costs more than is foreseen. `leadMs` is what it has had beyond its turn, in
 * GPU-ms; `rateMsPerMs` is what the pool has of them in a millisecond.
 *
 * Turns alone do not make shares. Whoever is next often does not fit just now, and then the room, which
 * must not stay empty, goes to whoever does: without this, two tenants of weights two and one get the
 * same. Where both always wait, a few points of room are enough to let the one behind catch up; where
 * the one behind could not use it, a few points are all that is lost.
 */
export function courtesyRatio(leadMs: number, rateMsPerMs: number, isSurprising: boolean): number {
  const surprisingRatio = isSurprising ? SURPRISING_RATIO : 0;
  if (leadMs <= 0 || rateMsPerMs <= 0) return surprisingRatio;
  return surprisingRatio + RATIO_MAX * Math.min(1, leadMs / rateMsPerMs / FULL_LEAD_MS);
}
