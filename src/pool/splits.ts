import { forecastLatency } from "../forecast/latency.ts";
import { LatestNames } from "../replicas/chain-names.ts";
import { roleOf } from "../replicas/replica-state.ts";
import type { Replica } from "../replicas/replica.ts";
import { isFit } from "./fitness.ts";
import type { PoolRequest } from "./pool-request.ts";
import { elapsedMsOf } from "./pool-request.ts";
import type { ReplicaWaits } from "./replica-waits.ts";

/** A replica that computes a prompt for the one that answers it. */
export interface Split {
  readonly replica: Replica;
  /** Of the prompt, what should be cached there, and as how much that counts. */
  readonly foundTokens: number;
  readonly cachedTokens: number;
  /** From the dispatch until its KV can be fetched, in the mean. */
  readonly prefillMs: number;
  /** What the fetch takes on top. */
  readonly transferMs: number;
  /** Of the prompt, what is left to be computed where it is answered. */
  readonly restTokens: number;
  /** For how long it is waited for. */
  readonly limitMs: number;
  /** Whether to be late is the replica's fault, and not that there was no more time. */
  readonly isLateAFault: boolean;
}

/** Fewer tokens are computed sooner than moved, and disturb nobody for long (1015). */
const SPLIT_TOKENS_MIN = 256;
/** What is moved is whole blocks, so that their last part is computed anew. */
const REST_TOKENS_MAX = 32;
/**
 * Over HTTP on one machine: a request of a prefill, one of its blocks, and their bytes. Only a first guess:
 * what it is where a pool runs, its calibration of split requests learns.
 */
const TRANSFER_FIXED_MS = 4;
const TRANSFER_TOKEN_MS = 0.01;

/** So many times what was foreseen, and so much more, is late by its replica's fault. */
const LATE_RATIO = 3;
const LATE_MS_MIN = 50;
/** The other half of what is left is for who then has to compute it. */
const LEFT_RATIO_MAX = 0.5;

/**
 * Finds out whether a prompt is better computed elsewhere than where its answer is decoded, so that those who
 * decode there are not held up by it (DistServe, OSDI'24).
 */
export class Splits {
  readonly #replicas: Iterable<Replica>;
  readonly #waits: ReplicaWaits;
  readonly #names = new LatestNames();

  constructor(replicas: Iterable<Replica>, waits: ReplicaWaits) {
    this.#replicas = replicas;
    this.#waits = waits;
  }

  /** Who would have a prompt ready first; `undefined` where it is to be computed at `place`, or nobody else can. */
  of(
    request: PoolRequest,
    place: { readonly replica: Replica; readonly uncachedTokens: number },
    nowMs: number,
  ): Split | undefined {
    if (roleOf(place.replica.state) !== "decode") return undefined;
    const { promptTokens, emittedTokens, offer, staysWhole } = request;
    // What an answer goes on from is in nobody's cache, and vectors have no KV that anybody would want.
    if (emittedTokens > 0 || offer.operation === "embeddings" || staysWhole === true) {
      return undefined;
    }
    if (place.uncachedTokens < SPLIT_TOKENS_MIN) return undefined;
    const leftMs = request.limits.ttftLimitMs - elapsedMsOf(request, nowMs);
    const limitMsMax = LEFT_RATIO_MAX * leftMs;
    let first: Split | undefined;
    for (const replica of this.#replicas) {
      if (roleOf(replica.state) !== "prefill" || !isFit(replica, request, nowMs)) continue;
      const load = replica.loadAt(nowMs);
      const { prefixes } = replica;
      const foundTokens = prefixes.hitRatio(this.#names.of(offer.chain), nowMs) * promptTokens;
      const cachedTokens = Math.floor(prefixes.trustRatio * foundTokens);
      const waits = this.#waits.of(replica, load, promptTokens - cachedTokens, nowMs);
      const work = { promptTokens, cachedTokens, outputTokens: 1 };
      const prefillMs = forecastLatency(work, load, waits).ttftMs;
      // Infinite: it has no room in sight.
      if (prefillMs >= Math.min(first?.prefillMs ?? Infinity, limitMsMax)) continue;
      const transferMs = TRANSFER_FIXED_MS + TRANSFER_TOKEN_MS * place.uncachedTokens;
      const restTokens = Math.min(REST_TOKENS_MAX, place.uncachedTokens);
      const lateMs = LATE_MS_MIN + LATE_RATIO * prefillMs;
      first = {
        replica,
        foundTokens,
        cachedTokens,
        prefillMs,
        transferMs,
        restTokens,
        limitMs: Math.min(lateMs, limitMsMax),
        isLateAFault: lateMs <= limitMsMax,
      };
    }
    return first;
  }
}
