import { type EngineSide, GREEDY } from "./engine-side.ts";

const SEQUENCE = 1;

/** How far two sides agree on what follows some prompts. */
export interface Agreement {
  readonly equalTokens: number;
  readonly tokens: number;
}

/**
 * Lets both sides go on greedily behind each prompt, every time with the first one's tokens, and
 * counts where they would choose the same.
 */
export async function compareTokens(
  side: EngineSide,
  other: EngineSide,
  { prompts, outputTokens }: { prompts: readonly (readonly number[])[]; outputTokens: number },
): Promise<Agreement> {
  let equalTokens = 0;
  for (const prompt of prompts) {
    for (const each of [side, other]) each.rewind(SEQUENCE, 0);
    let tokens = prompt;
    let startPosition = 0;
    for (let output = 0; output < outputTokens; output++) {
      const parts = [{ sequence: SEQUENCE, startPosition, tokens }];
      const [token = -1] = await side.step(parts, GREEDY);
      const [otherToken] = await other.step(parts, GREEDY);
      if (token === otherToken) equalTokens += 1;
      startPosition += tokens.length;
      tokens = [token];
    }
  }
  return { equalTokens, tokens: prompts.length * outputTokens };
}
