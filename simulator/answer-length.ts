import type { Dispatch } from "../src/pool/offer.ts";
import { sequenceTokensMax } from "./hardware-profile.ts";
import type { Attempt } from "./simulated-call.ts";
import type { RequestSize } from "./workloads/arrival.ts";

/**
 * Tokens that a replica's answer will have: as many as it has room for behind the prompt, at most. Where it has none
 * the answer is of one token, and the replica refuses the request.
 */
export function answerTokensOf(
  spec: RequestSize,
  dispatch: Dispatch,
  replica: Parameters<typeof sequenceTokensMax>[0],
): number {
  const room = Math.max(1, sequenceTokensMax(replica) - spec.promptTokens);
  return Math.min(wantedTokensOf(spec, dispatch), room);
}

/** How a whole answer ends: of itself, or for want of room. */
export function endingOf({ call, dispatch, answerTokenIds }: Attempt): "stop" | "length" {
  const wanted = wantedTokensOf(call.options.spec, dispatch);
  return answerTokenIds.length < wanted ? "length" : "stop";
}

/** A tenant's ladder may have cut it short. */
function wantedTokensOf(spec: RequestSize, { clampedOutputTokensMax = Infinity }: Dispatch) {
  return Math.min(spec.outputTokens, clampedOutputTokensMax);
}
