import type { TokenChoice } from "./token-choice.ts";

/** Whether a choice is by the logits as they are, so that they need not be copied. */
export function isUnadjusted({ sampling, forbiddenTokenIds, constraint }: TokenChoice): boolean {
  return (
    constraint === undefined &&
    forbiddenTokenIds.length === 0 &&
    sampling.logitBias.length === 0 &&
    sampling.repetitionPenalty === 1 &&
    sampling.frequencyPenalty === 0 &&
    sampling.presencePenalty === 0
  );
}

/**
 * Changes the logits to what the next token is chosen by: first -Infinity for what the constraint or
 * the output's minimum forbids, then the biases, then the penalties.
 *
 * A constraint outranks the minimum: a text that is complete and allows nothing but its end does
 * end. Whatever the numbers are, what is not forbidden stays finite.
 */
export function adjustLogits(scores: Float64Array, choice: TokenChoice): void {
  forbidTokens(scores, choice);
  for (const [token, bias] of choice.sampling.logitBias) {
    scores[token] = (scores[token] ?? 0) + bias;
  }
  applyPenalties(scores, choice);
}

function forbidTokens(scores: Float64Array, choice: TokenChoice): void {
  const { constraint, forbiddenTokenIds } = choice;
  const allowed = constraint?.allowedTokens();
  if (allowed !== undefined) {
    forbidOthers(scores, allowed);
    if (!hasOther(allowed, forbiddenTokenIds, scores.length)) return;
  }
  for (const token of forbiddenTokenIds) scores[token] = -Infinity;
}

function forbidOthers(scores: Float64Array, allowed: Int32Array): void {
  for (let token = 0; token < scores.length; token++) {
    if (!isAllowed(allowed, token)) scores[token] = -Infinity;
  }
}

/** Whether anything is allowed besides these tokens. */
function hasOther(allowed: Int32Array, tokenIds: readonly number[], tokenCount: number): boolean {
  for (let token = 0; token < tokenCount; token++) {
    if (isAllowed(allowed, token) && !tokenIds.includes(token)) return true;
  }
  return false;
}

function isAllowed(allowed: Int32Array, token: number): boolean {
  return (((allowed[token >> 5] ?? 0) >> (token & 31)) & 1) === 1;
}

function applyPenalties(scores: Float64Array, { sampling, history }: TokenChoice): void {
  const { repetitionPenalty, frequencyPenalty, presencePenalty } = sampling;
  for (const token of history.seenTokens) {
    const score = scores[token] ?? 0;
    // A penalty next to 0 would make a score infinite, and infinities cannot be compared.
    const raised = Math.min(score / repetitionPenalty, Number.MAX_VALUE);
    scores[token] = score > 0 ? raised : score * repetitionPenalty;
  }
  for (const [token, count] of history.outputCounts) {
    scores[token] = (scores[token] ?? 0) - frequencyPenalty * count - presencePenalty;
  }
}
