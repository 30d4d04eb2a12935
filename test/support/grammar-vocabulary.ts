import { shareVocabulary } from "../../gpu-backend/engine/structured/vocabulary.ts";
import type { TokenConstraint } from "../../gpu-backend/engine/token-constraint.ts";
import { loadTokenizer } from "../../gpu-backend/engine/tokenizer/tokenizer.ts";
import type { Random } from "../../src/base/random.ts";

const FOLDER = `${import.meta.dirname}/../../gpu-backend/models/sluice-tiny`;
const END_TOKENS = [5, 1];

/** The bundled model's tokens, as text and as the grammar threads see them. */
export const tokenizer = await loadTokenizer(FOLDER);
export const vocabulary = shareVocabulary(tokenizer.tokenBytes, {
  logitCount: tokenizer.vocabularyTokens,
  endTokenIds: END_TOKENS,
});

/** What a constraint allows next, as ids in ascending order. */
export function allowedTokens(constraint: TokenConstraint): number[] {
  const mask = constraint.allowedTokens();
  return Array.from({ length: tokenizer.vocabularyTokens }, (_, id) => id).filter(
    (id) => (((mask[id >> 5] ?? 0) >>> (id & 31)) & 1) === 1,
  );
}

/** Whether a constraint lets a text through, from its beginning to its end. Takes the constraint. */
export function letsThrough(constraint: TokenConstraint, text: string): boolean {
  for (const tokenId of tokenizer.encodeText(text)) {
    if (!allowedTokens(constraint).includes(tokenId)) return false;
    constraint.accept(tokenId);
  }
  return END_TOKENS.every((id) => allowedTokens(constraint).includes(id));
}

/** Steps after which a text hurries to its end, and after which it is given up. */
const HURRY_STEPS = 60;
const STEPS_MAX = 600;

/**
 * Writes a text of random tokens that the constraint allows, until it is complete. Returns its bytes,
 * or undefined if it finds no end.
 */
export function writeRandomly(constraint: TokenConstraint, random: Random): Buffer | undefined {
  const bytes: number[] = [];
  for (let step = 0; step < STEPS_MAX; step += 1) {
    const allowed = allowedTokens(constraint);
    const isComplete = allowed.some((id) => END_TOKENS.includes(id));
    const isHurried = step > HURRY_STEPS || random() < 0.15;
    if (isComplete && (isHurried || allowed.length === END_TOKENS.length))
      return Buffer.from(bytes);
    const words = allowed.filter((id) => !END_TOKENS.includes(id));
    const closing = words.filter((id) => '"}]'.includes(tokenizer.decode([id])));
    const choice = isHurried && closing.length > 0 ? closing : words;
    const tokenId = choice[Math.floor(random() * choice.length)];
    if (tokenId === undefined) return undefined;
    bytes.push(...tokenizer.tokenBytes.of(tokenId));
    constraint.accept(tokenId);
  }
  return undefined;
}
