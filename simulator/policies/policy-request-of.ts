import type { Offer } from "../../src/pool/offer.ts";
import { chainKeyAt, chainLength, NO_CHAIN } from "../../src/protocol/prompt-chain.ts";
import { BYTES_PER_TOKEN } from "../prompt-shape.ts";
import type { PolicyRequest } from "./policy.ts";

/** A request as a policy is told of it: its length in tokens is guessed from its text, as routers do. */
export function policyRequestOf(
  { requestId, tenantId, promptBytes, chain, route = "", targets, elapsedMs }: Offer,
  nowMs: number,
): PolicyRequest {
  const promptTokens = promptBytes / BYTES_PER_TOKEN;
  const { blockRatio } = chain ?? NO_CHAIN;
  const prefixes = Array.from({ length: chainLength(chain ?? NO_CHAIN) }, (_, index) => ({
    key: chainKeyAt(chain ?? NO_CHAIN, index),
    tokens: (index + 1) * blockRatio * promptTokens,
  }));
  return {
    requestId,
    tenantId,
    promptTokens,
    route,
    prefixes,
    targets,
    arrivedAtMs: nowMs - elapsedMs,
  };
}
