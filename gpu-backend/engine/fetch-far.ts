import type { KvCache } from "./kv-cache/kv-cache.ts";
import type { FarRun, KvTier } from "./kv-cache/kv-tier.ts";
import type { Sequence } from "./sequence.ts";

/** Waited for a peer at most, whatever computing would take. */
const PEER_MS_MAX = 2_000;
/** A small prompt is computed so soon that no answer of a peer could be early enough. */
const PEER_MS_MIN = 20;
/** Behind its forecast a load that goes well is here. */
const LOAD_RATIO = 2;

/** Lets a new sequence wait for what is far below the pool, or at a peer, if that is worth it. */
export function fetchFar(
  sequence: Sequence,
  { kvCache, kvTier }: { readonly kvCache: KvCache; readonly kvTier: KvTier | undefined },
  nowMs: number,
): void {
  const { request, chain, knownTokens, readsPrefixCache } = sequence;
  if (!readsPrefixCache) return;
  const run = kvCache.farFetch(chain, knownTokens, request.kvPeer);
  if (run === undefined) return;
  sequence.awaitKv();
  const { firstTokenDeadlineAtMs = Infinity } = request;
  const waitMsMax = peerWaitMs(run, firstTokenDeadlineAtMs - nowMs);
  kvTier?.fetch(request.id, run.hashes, run.peer && { peer: run.peer, request, waitMsMax });
}

/**
 * How long a request waits for a peer before it computes all by itself: about as long as that would take, so
 * that a peer which falls silent costs as much again and no more, and not so long that its first token
 * could no longer be in time if it were computed here.
 */
export function peerWaitMs(
  { loadMs, computeMs, worthMs }: Pick<FarRun, "loadMs" | "computeMs" | "worthMs">,
  leftMs: number,
): number {
  if (computeMs === undefined) return Math.max(0, Math.min(PEER_MS_MAX, leftMs));
  const patienceMs = Math.max(PEER_MS_MIN, worthMs ?? computeMs);
  // Where there is no time left to compute it, only a load can be in time.
  const slackMs = Math.max(LOAD_RATIO * loadMs, leftMs - computeMs);
  return Math.max(0, Math.min(PEER_MS_MAX, patienceMs, slackMs));
}
