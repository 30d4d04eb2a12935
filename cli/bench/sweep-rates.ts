import type { LoadResult } from "./load-result.ts";

interface SweepPoint {
  readonly rate: number;
  readonly result: LoadResult;
}

/** What was found of how much load a server takes. */
export interface RateSweep {
  readonly points: readonly SweepPoint[];
  /** The highest rate tried at which enough was good; `null`: not even the lowest. */
  readonly knee: number | null;
  readonly target: number;
  /** False: the highest rate was still good enough, or the sweep was stopped. */
  readonly isBounded: boolean;
}

export interface SweepOptions {
  readonly from: number;
  readonly to: number;
  /** How much of what is offered has to be good. */
  readonly target: number;
  readonly signal: AbortSignal;
  readonly run: (rate: number) => Promise<LoadResult>;
}

const STEP_RATIO = 1.5;
const HALVINGS = 3;

/** Raises the rate step by step until too little is good, and then halves the last step a few times. */
export async function sweepRates(options: SweepOptions): Promise<RateSweep> {
  const { from, to, target, signal, run } = options;
  const points: SweepPoint[] = [];
  const isGoodAt = async (rate: number): Promise<boolean> => {
    const result = await run(rate);
    points.push({ rate, result });
    return !result.interrupted && (result.attainment_offered ?? 0) >= target;
  };
  let knee: number | null = null;
  let tooMuch: number | null = null;
  for (const rate of ladder(from, to)) {
    if (signal.aborted) break;
    if (await isGoodAt(rate)) knee = rate;
    else {
      tooMuch = rate;
      break;
    }
  }
  for (let halving = 0; halving < HALVINGS; halving += 1) {
    if (knee === null || tooMuch === null || signal.aborted) break;
    const middle = Math.sqrt(knee * tooMuch);
    if (await isGoodAt(middle)) knee = middle;
    else tooMuch = middle;
  }
  return {
    points: points.toSorted((a, b) => a.rate - b.rate),
    knee,
    target,
    isBounded: tooMuch !== null && !signal.aborted,
  };
}

function* ladder(from: number, to: number): Generator<number> {
  for (let rate = from; rate < to; rate *= STEP_RATIO) yield rate;
  yield to;
}
