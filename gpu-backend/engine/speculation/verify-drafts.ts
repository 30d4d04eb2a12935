import type { Drafts } from "../batch.ts";
import type { ChosenToken, Sampler } from "../sampler.ts";
import type { TokenChoice } from "../token-choice.ts";

/**
 * Chooses the next tokens of a row whose drafts were computed with it: as if each had been chosen in a
 * step of its own, since every choice has its own draw and sees the history and the constraint as the
 * tokens before it leave them. Goes on while the token chosen is the one that was guessed.
 *
 * `logits` has a row for the choice and one for each draft. History and constraint are as before when
 * this is done. Throws as `Sampler.choose` does if not even the first token can be chosen; a later one that
 * cannot is left to the step that has it first.
 */
export function verifyDrafts(
  sampler: Sampler,
  logits: Float32Array,
  choice: TokenChoice,
  drafts: Drafts,
): readonly ChosenToken[] {
  const { vocabularyTokens } = sampler;
  const { history, constraint } = choice;
  const chosen: ChosenToken[] = [];
  try {
    for (const [index, each] of [choice, ...drafts.choices].entries()) {
      const start = index * vocabularyTokens;
      const token = sampler.choose(logits.subarray(start, start + vocabularyTokens), each);
      chosen.push(token);
      if (token.tokenId !== drafts.tokenIds[index]) break;
      history.addOnTrial(token.tokenId);
      constraint?.acceptOnTrial(token.tokenId);
    }
  } catch (error) {
    if (chosen.length === 0) throw error;
  } finally {
    history.takeBack();
    constraint?.takeBack();
  }
  return chosen;
}
