import { mix32 } from "../../src/base/hash.ts";
import type { LoadArrival } from "./load-tenant.ts";

/** How many tokens a server makes of prompts: so many for each word, and so many around them. */
export interface PromptMeasure {
  readonly tokensPerWord: number;
  readonly overheadTokens: number;
  /** False: the server tells no counts, and this is what is common in English. */
  readonly isMeasured: boolean;
}

/** A token a word, and what a chat's template adds; of most vocabularies. */
export const ASSUMED_MEASURE: PromptMeasure = {
  tokensPerWord: 1,
  overheadTokens: 10,
  isMeasured: false,
};

// Words that most vocabularies have whole, with the blank before them.
const WORDS = [
  "fox",
  "lamp",
  "hill",
  "boat",
  "sun",
  "tree",
  "rain",
  "bird",
  "house",
  "river",
  "stone",
  "bread",
  "green",
  "small",
  "night",
  "table",
  "water",
  "light",
  "road",
  "book",
  "hand",
  "door",
  "wind",
  "fish",
  "snow",
  "blue",
  "horse",
  "music",
  "paper",
  "window",
  "garden",
  "letter",
] as const;

/**
 * Writes the prompt of a request: words of its own from the first one on, so that nothing of it is cached
 * anywhere, except where a trace says that prompts begin alike. Another seed gives other words.
 */
export function promptText(arrival: LoadArrival, measure: PromptMeasure, seed: number): string {
  const { index, promptTokens, promptBlocks } = arrival;
  const { tokensPerWord, overheadTokens } = measure;
  const words = Math.max(1, Math.round((promptTokens - overheadTokens) / tokensPerWord));
  const own = mix32(mix32(seed) ^ (index + 1));
  const blockWords = Math.max(1, Math.round((promptBlocks?.blockTokens ?? 1) / tokensPerWord));
  return Array.from({ length: words }, (_, at) => {
    const block = promptBlocks?.ids[Math.floor(at / blockWords)];
    const stream = block === undefined ? own : mix32(mix32(seed) ^ 0x5bd1e995 ^ block);
    return WORDS[mix32(stream ^ Math.imul(at + 1, 0xc2b2ae35)) % WORDS.length];
  }).join(" ");
}

/** The counts of two prompts of different length tell what a word and what the rest is. */
export function measureOf(
  shorter: { readonly words: number; readonly promptTokens: number },
  longer: { readonly words: number; readonly promptTokens: number },
): PromptMeasure {
  const tokensPerWord =
    (longer.promptTokens - shorter.promptTokens) / (longer.words - shorter.words);
  if (!(tokensPerWord > 0)) return ASSUMED_MEASURE;
  const overheadTokens = Math.max(0, shorter.promptTokens - shorter.words * tokensPerWord);
  return { tokensPerWord, overheadTokens, isMeasured: true };
}
