import { TokenEstimate } from "../src/pool/token-estimate.ts";
import type { TextInput } from "../src/protocol/text-input.ts";

/** How long a prompt is, as far as that can be told without its tokenizer. */
export interface PromptSize {
  /** Of its text, or what a text of so many tokens would have. */
  readonly bytes: number;
  /** Fewer tokens it cannot have, whatever the tokenizer. */
  readonly tokensMin: number;
  /** What it should have: exact for what came as tokens, else what a pool takes for it at first. */
  readonly tokens: number;
}

/**
 * The longest tokens of vocabularies in use: runs of 128 spaces. Words are far shorter, so this
 * refuses only the plainly hopeless; everything else is for those who can count to say.
 */
const TOKEN_BYTES_MAX = 128;
/** English text has about so many. The pool forecasts by bytes, also what came as tokens. */
const TOKEN_BYTES_MEAN = 4;

const FIRST_ESTIMATE = new TokenEstimate();

/** Measures one prompt. */
export function promptSizeOf(input: TextInput): PromptSize {
  if (input.kind === "tokens") {
    const tokensMin = input.tokenIds.length;
    return { bytes: tokensMin * TOKEN_BYTES_MEAN, tokensMin, tokens: tokensMin };
  }
  const bytes = new TextEncoder().encode(input.text).length;
  return {
    bytes,
    tokensMin: Math.floor(bytes / TOKEN_BYTES_MAX),
    tokens: FIRST_ESTIMATE.tokensOf(bytes),
  };
}

/** The fewest tokens that the longest of several prompts can have. */
export function tokensMinOf(prompts: readonly PromptSize[]): number {
  return prompts.reduce((max, prompt) => Math.max(max, prompt.tokensMin), 0);
}
