import { CONTINUATION_MEMBER } from "../../src/protocol/continuation.ts";
import type { Generation } from "./generation.ts";
import { requireTokenId } from "./generation.ts";
import { ProblemError } from "./problem-error.ts";

const TOKENS_PARAM = `${CONTINUATION_MEMBER}.token_ids`;

/**
 * Throws unless what is asked to go on can go on here, token by token as it would have elsewhere. What only
 * another engine would do is `continuation_mismatch`: the request itself may be fine.
 */
export function requireContinuable({
  model,
  requests,
  parameters,
  identity,
  mayBeContinued,
}: Generation): void {
  const { sluice_continuation: continuation, stream } = parameters;
  if (continuation === undefined) return;
  const [request] = requests;
  if (request === undefined || !mayBeContinued || !stream) {
    const message = `Expected '${CONTINUATION_MEMBER}' only of a stream of one choice without an echo`;
    throw new ProblemError({ code: "invalid_value", message, param: CONTINUATION_MEMBER });
  }
  for (const tokenId of continuation.token_ids) requireTokenId(model, tokenId, TOKENS_PARAM);
  if (continuation.token_ids.length > continuation.output_tokens_max) {
    const message = `Expected '${TOKENS_PARAM}' to be no longer than the output may be`;
    throw new ProblemError({ code: "array_above_max_length", message, param: TOKENS_PARAM });
  }
  const isAlike =
    continuation.system_fingerprint === identity.systemFingerprint &&
    continuation.prompt_tokens === request.promptTokens.length &&
    continuation.output_tokens_max === request.outputTokensMax;
  if (!isAlike) throw new ProblemError({ code: "continuation_mismatch" });
}
