import type { TokenLogprob } from "./generate-request.ts";

/** Thrown for logits that are not finite: the row's computation is void, that of others is not. */
export class InvalidLogitsError extends Error {
  override readonly name = "InvalidLogitsError";
}

type Alternative = TokenLogprob["top"][number];

/**
 * The natural logarithm of a token's probability under these logits as the model gave them, and those of
 * the `top` most probable tokens, the lowest id first among equals. Sums in f64; throws
 * `InvalidLogitsError` if a logit is not finite.
 */
export function tokenLogprob(logits: Float32Array, tokenId: number, top: number): TokenLogprob {
  const normalizer = logSumExp(logits);
  const logprobOf = (token: number) => (logits[token] ?? Number.NaN) - normalizer;
  return {
    tokenId,
    logprob: logprobOf(tokenId),
    top: mostProbable(logits, top).map((token): Alternative => {
      return { tokenId: token, logprob: logprobOf(token) };
    }),
  };
}

/** The logarithm of the sum of all exponentials, without overflow. */
function logSumExp(logits: Float32Array): number {
  let best = -Infinity;
  for (let token = 0; token < logits.length; token++) {
    const logit = logits[token] ?? Number.NaN;
    if (!Number.isFinite(logit)) throw invalidLogit(logit, token);
    if (logit > best) best = logit;
  }
  let sum = 0;
  for (let token = 0; token < logits.length; token++) sum += Math.exp((logits[token] ?? 0) - best);
  return best + Math.log(sum);
}

/** The error for a logit that no model can have meant. */
export function invalidLogit(logit: number, token: number): InvalidLogitsError {
  return new InvalidLogitsError(`Expected finite logits, found ${logit} for token ${token}`);
}

/** The tokens with the largest logits, in order. `count` is small, so an insertion does. */
function mostProbable(logits: Float32Array, count: number): number[] {
  const tokens: number[] = [];
  if (count === 0) return tokens;
  let least = -Infinity;
  for (let token = 0; token < logits.length; token++) {
    const logit = logits[token] ?? 0;
    if (tokens.length === count && logit <= least) continue;
    let place = tokens.length;
    while (place > 0 && logit > (logits[tokens[place - 1] ?? 0] ?? 0)) place -= 1;
    tokens.splice(place, 0, token);
    if (tokens.length > count) tokens.pop();
    least = logits[tokens.at(-1) ?? 0] ?? 0;
  }
  return tokens;
}
