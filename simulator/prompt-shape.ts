import type { PromptPrefix } from "../src/replicas/prefix-index.ts";
import type { ArrivalSpec } from "./workloads/arrival.ts";

/** Prompts are cut behind so many tokens to name what they begin with. */
const CUT_TOKENS = [
  128, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12_288, 16_384, 24_576,
] as const;
/** Of English text under common vocabularies. */
export const BYTES_PER_TOKEN = 4;

/** How long a prompt is as text; the gateway is told nothing else about its tokens. */
export function promptBytesOf(promptTokens: number): number {
  return promptTokens * BYTES_PER_TOKEN;
}

/**
 * Names what a prompt begins with, shortest first. Names agree as far as prompts do: by recorded blocks
 * where there are some, else over the prefix of the group and from there on for turns of one session.
 */
export function prefixesOf(spec: ArrivalSpec, index: number): PromptPrefix[] {
  const cuts = CUT_TOKENS.filter((tokens) => tokens <= spec.promptTokens);
  return cuts.map((tokens) => ({
    key: `${beginningOf(spec, index, tokens)}/${tokens}`,
    bytes: promptBytesOf(tokens),
  }));
}

function beginningOf(spec: ArrivalSpec, index: number, tokens: number): string {
  const { promptBlocks, prefixTokens, prefixGroup, sessionId } = spec;
  if (promptBlocks !== undefined) {
    const blocks = Math.ceil(tokens / promptBlocks.blockTokens);
    return promptBlocks.ids.slice(0, blocks).join(" ");
  }
  if (tokens <= prefixTokens) return `group ${prefixGroup}`;
  return sessionId === undefined ? `request ${index}` : `session ${sessionId}`;
}
