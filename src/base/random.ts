/** A source of uniform numbers in [0, 1). Cores take one as an argument; only bodies make one. */
export type Random = () => number;

/** How far a seeded sequence has come. */
export interface RandomState {
  value: number;
}

/** Returns the same sequence for the same seed on every platform (Mulberry32). */
export function seededRandom(seed: number): Random {
  return randomOf({ value: seed >>> 0 });
}

/** Draws the seed of another sequence, so that who draws from that one shifts nothing in this one. */
export function drawSeed(random: Random): number {
  return Math.floor(random() * 2 ** 32);
}

/** Goes on with a sequence from where it is; the state moves along. */
export function randomOf(state: RandomState): Random {
  return () => {
    state.value = (state.value + 0x6d2b79f5) >>> 0;
    let mixed = state.value;
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}
