import { LatestNames } from "../replicas/chain-names.ts";
import type { Replica } from "../replicas/replica.ts";
import type { Option } from "./option.ts";
import type { PoolRequest } from "./pool-request.ts";

/** So much more than the chosen replica a peer has to have: less is computed as soon as it is fetched. */
const PEER_TOKENS_MIN = 256;

/**
 * Finds the replica that has the most of a prompt cached beyond what the chosen one has, if that is worth
 * mentioning: whether to fetch KV from there is the engine's decision, which knows what both take. The one that
 * has it may be full, which is when requests go elsewhere; but it must be well.
 */
export function kvPeerOf(
  { offer, promptTokens, emittedTokens }: PoolRequest,
  { replica: chosen, foundTokens }: Pick<Option, "replica" | "foundTokens">,
  replicas: Iterable<Replica>,
  nowMs: number,
): Replica | undefined {
  const names = new LatestNames().of(offer.chain);
  const promptOnlyTokens = promptTokens - emittedTokens;
  if (names === undefined || chosen.plain !== undefined) return undefined;
  if (promptOnlyTokens - foundTokens < PEER_TOKENS_MIN) return undefined;
  let most = foundTokens + PEER_TOKENS_MIN;
  let peer: Replica | undefined;
  for (const replica of replicas) {
    if (replica === chosen || replica.plain !== undefined) continue;
    const { isReady, isEjected, hasModel } = replica.factsAt(nowMs, offer.replicaModelId);
    if (!isReady || isEjected || !hasModel) continue;
    const tokens = replica.prefixes.hitRatio(names, nowMs) * promptOnlyTokens;
    if (tokens < most) continue;
    most = tokens;
    peer = replica;
  }
  return peer;
}
