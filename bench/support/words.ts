import type { Random } from "../../src/base/random.ts";

const WORDS = ["fox", "lamp", "hill", "boat", "sun", "tree", "rain", "bird"];

/** So many words of the bundled model are about 1,500 tokens. */
export const PREFIX_WORDS = 1_490;

/** Random words: a text that no cache has seen. */
export function wordsOf(count: number, random: Random): string {
  return Array.from({ length: count }, () => WORDS[Math.floor(random() * WORDS.length)]).join(" ");
}
