import type { Random } from "../../../../src/base/random.ts";

/** Draws from the standard normal distribution (Box and Muller). */
export function drawNormal(random: Random): number {
  return Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
}

/** Draws an output length of at least 1 from a log-normal distribution. */
export function drawLength(random: Random, medianTokens: number, sigma: number): number {
  return Math.max(1, Math.round(medianTokens * Math.exp(sigma * drawNormal(random))));
}
