import { hashText, mix32 } from "../src/base/hash.ts";
import type { PromptChain } from "../src/protocol/prompt-chain.ts";
import {
  CHAIN_BLOCK_BYTES,
  CHAIN_BLOCKS_MAX,
  CHAIN_KEY_LENGTH,
  chainKeyAt,
  chainLength,
} from "../src/protocol/prompt-chain.ts";
import type { ArrivalSpec } from "./workloads/arrival.ts";

/** Of English text under common vocabularies. */
export const BYTES_PER_TOKEN = 4;
const BLOCK_TOKENS = CHAIN_BLOCK_BYTES / BYTES_PER_TOKEN;
/** The route goes by this block, counted from 0, as an edge has it. */
const HEAD_BLOCK = 1;

/** How long a prompt is as text; the gateway is told nothing else about its tokens. */
export function promptBytesOf(promptTokens: number): number {
  return promptTokens * BYTES_PER_TOKEN;
}

/**
 * Names what a prompt begins with, behind every block. Names agree as far as prompts do: by recorded blocks
 * where there are some, else over the prefix of the group and from there on for turns of one session.
 */
export function chainOf(spec: ArrivalSpec, index: number): PromptChain {
  const { promptTokens } = spec;
  const blocks = Math.min(CHAIN_BLOCKS_MAX, Math.floor(promptTokens / BLOCK_TOKENS));
  let keys = "";
  let folded = 0;
  for (let block = 0; block < blocks; block += 1) {
    const endTokens = (block + 1) * BLOCK_TOKENS;
    folded = mix32(folded ^ hashText(contentOf(spec, index, endTokens)));
    keys += keyOf(folded, endTokens);
  }
  return { keys, blockRatio: Math.min(1, BLOCK_TOKENS / Math.max(1, promptTokens)) };
}

/**
 * Names what should meet at one replica: a session, which its client tells by its `prompt_cache_key`, or else
 * what begins alike, so far as an edge looks.
 */
export function routeOf(spec: ArrivalSpec, index: number, chain: PromptChain): string {
  if (spec.sessionId !== undefined) return `session ${spec.sessionId}`;
  if (chainLength(chain) > HEAD_BLOCK) return chainKeyAt(chain, HEAD_BLOCK);
  return contentOf(spec, index, spec.promptTokens);
}

/** What stands in the prompt up to there and since the block before, as far as it is known to be anywhere else. */
function contentOf(spec: ArrivalSpec, index: number, endTokens: number): string {
  const { promptBlocks, prefixTokens, prefixGroup, sessionId } = spec;
  if (promptBlocks !== undefined) {
    const { ids, blockTokens } = promptBlocks;
    const first = Math.floor((endTokens - BLOCK_TOKENS) / blockTokens);
    return `blocks ${ids.slice(Math.max(0, first), Math.ceil(endTokens / blockTokens)).join(" ")}`;
  }
  if (endTokens <= prefixTokens) return `group ${prefixGroup}`;
  return sessionId === undefined ? `request ${index}` : `session ${sessionId}`;
}

function keyOf(folded: number, endTokens: number): string {
  const digits = folded.toString(36) + mix32(folded ^ endTokens).toString(36);
  return digits.slice(0, CHAIN_KEY_LENGTH).padStart(CHAIN_KEY_LENGTH, "0");
}
