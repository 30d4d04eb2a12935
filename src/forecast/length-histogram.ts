/**
 * Lengths seen, in buckets of equal ratio, older ones fading. An output that was cut is as long as it
 * is or longer: it is kept apart, and counts as one that could have ended in any bucket below its own.
 */
export interface LengthHistogram {
  /** Weight of outputs that came to their own end, by bucket. */
  readonly ended: number[];
  /** Weight of outputs that were cut, by bucket. */
  readonly cut: number[];
  /** Sum over both. */
  weight: number;
  updatedAtMs: number;
  /** Outputs ever learned, and doubts: tells readers whether something changed. */
  learned: number;
}

const BUCKETS_PER_OCTAVE = 8;
/** Up to 2^20 tokens; longer ones count as that. */
const OCTAVES = 20;
export const BUCKETS = BUCKETS_PER_OCTAVE * OCTAVES + 1;

/** Buckets lie around the powers of 2^(1/8), so that 1, 2, 4 … are in the middle of theirs. */
export function bucketOf(tokens: number): number {
  const bucket = Math.round(BUCKETS_PER_OCTAVE * Math.log2(Math.max(1, tokens)));
  return Math.min(bucket, BUCKETS - 1);
}

/** Where a bucket begins; `lowerEdge(BUCKETS)` is where the last one ends. */
export function lowerEdge(bucket: number): number {
  return 2 ** ((bucket - 0.5) / BUCKETS_PER_OCTAVE);
}

export function emptyHistogram(nowMs: number): LengthHistogram {
  return {
    ended: Array.from({ length: BUCKETS }, () => 0),
    cut: Array.from({ length: BUCKETS }, () => 0),
    weight: 0,
    updatedAtMs: nowMs,
    learned: 0,
  };
}

/**
 * Adds one output, after what is there has faded by the time since, and to at most `weightMax`, so that
 * whoever sends much is followed as quickly as who sends little. A clock that runs backwards lets nothing fade.
 */
export function addLength(
  histogram: LengthHistogram,
  length: { readonly tokens: number; readonly isCut: boolean },
  fading: { readonly nowMs: number; readonly halfLifeMs: number; readonly weightMax: number },
): void {
  const elapsedMs = Math.max(0, fading.nowMs - histogram.updatedAtMs);
  const aged = 2 ** (-elapsedMs / fading.halfLifeMs);
  const kept = Math.min(
    aged,
    (fading.weightMax - 1) / Math.max(histogram.weight, Number.MIN_VALUE),
  );
  fadeBy(histogram, kept);
  const counts = length.isCut ? histogram.cut : histogram.ended;
  const bucket = bucketOf(length.tokens);
  counts[bucket] = (counts[bucket] ?? 0) + 1;
  histogram.weight += 1;
  histogram.updatedAtMs = Math.max(histogram.updatedAtMs, fading.nowMs);
  histogram.learned += 1;
}

/** Lets what is there count for so many outputs at most. */
export function fadeTo(histogram: LengthHistogram, weightMax: number): void {
  if (histogram.weight <= weightMax) return;
  fadeBy(histogram, weightMax / histogram.weight);
  histogram.learned += 1;
}

function fadeBy(histogram: LengthHistogram, kept: number): void {
  const { ended, cut } = histogram;
  for (let bucket = 0; bucket < BUCKETS; bucket++) {
    ended[bucket] = (ended[bucket] ?? 0) * kept;
    cut[bucket] = (cut[bucket] ?? 0) * kept;
  }
  histogram.weight *= kept;
}
