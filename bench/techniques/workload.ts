import type { Random } from "../../src/base/random.ts";
import { seededRandom } from "../../src/base/random.ts";

/** Ids of ordinary tokens; what they say does not matter to what a step takes. */
const FIRST_TOKEN = 300;
const LAST_TOKEN = 4000;

/** A prompt of random tokens, the same for the same seed. */
export function somePrompt(tokens: number, seed: number): number[] {
  const random = seededRandom(1000 + seed);
  return Array.from(
    { length: tokens },
    () => FIRST_TOKEN + Math.floor(random() * (LAST_TOKEN - FIRST_TOKEN)),
  );
}

/** An exponential length of this mean, at least 1 and at most `max`. */
export function someLength(mean: number, max: number, random: Random): number {
  return Math.min(max, Math.max(1, Math.round(-mean * Math.log(1 - random()))));
}
