import { assert } from "../../src/base/assert.ts";
import { type AnswerTotals, toUsage } from "../../src/protocol/usage.ts";
import type { RunningGeneration } from "./submit-generation.ts";

/**
 * Adds up what a request cost when all of its choices were read to their end. A prompt counts
 * once, with what its first choice found cached, however many choices share it.
 */
export function readTotals(
  { answers, choices, generation }: RunningGeneration,
  options: { readonly prefixCache: boolean; readonly includesMetrics: boolean },
): AnswerTotals {
  const { endings } = answers;
  assert(endings !== undefined, "totals are read behind the last choice's end");
  const { sluice_continuation: continuation } = generation.parameters;
  const counts = { promptTokens: 0, cachedTokens: 0, cacheWriteTokens: 0, outputTokens: 0 };
  for (const [index, ending] of endings.entries()) {
    counts.outputTokens += ending.counts.outputTokens;
    if (index % generation.choicesPerPrompt !== 0) continue;
    const { promptTokens } = ending.counts;
    // Of one that goes on, what its beginning found: what it finds now is mostly its own.
    const cachedTokens = continuation?.cached_tokens ?? ending.counts.cachedTokens;
    const fullBlockTokens = promptTokens - (promptTokens % generation.model.blockTokens);
    counts.promptTokens += promptTokens;
    counts.cachedTokens += cachedTokens;
    // Only full blocks are kept, and a hit is already there.
    counts.cacheWriteTokens += options.prefixCache ? fullBlockTokens - cachedTokens : 0;
  }
  const [first, ...others] = choices;
  const hasMetrics = options.includesMetrics && others.length === 0;
  const metrics = hasMetrics ? first?.timing.answerMetrics() : undefined;
  return { usage: toUsage(counts), ...(metrics && { metrics }) };
}
