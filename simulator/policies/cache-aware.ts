import { assert } from "../../src/base/assert.ts";
import {
  type Policy,
  type PolicyMoment,
  type PolicyReplica,
  type PolicyRequest,
  type PolicyVerdict,
  REJECTED,
} from "./policy.ts";

/** The knobs of the source, under its own names where they have one. */
export interface CacheAwareOptions {
  /** `cache_threshold`: a match of a smaller share of the prompt counts for nothing. */
  readonly matchRatioMin: number;
  /** `balance_abs_threshold` and `balance_rel_threshold`: beyond both the pool is imbalanced. */
  readonly imbalanceRequests: number;
  readonly imbalanceRatio: number;
  readonly evictionIntervalMs: number;
  readonly treeTokensMax: number;
}

/**
 * What the router's command line sets unless told otherwise (`router_args.py`). A tree is bounded by
 * 2²⁶ characters there, and a token has about four.
 */
const SGLANG_DEFAULTS: CacheAwareOptions = {
  matchRatioMin: 0.3,
  imbalanceRequests: 64,
  imbalanceRatio: 1.5,
  evictionIntervalMs: 120_000,
  treeTokensMax: 2 ** 24,
};

/** What one replica was sent: by prefix, the tokens it adds to the one before; least recently used first. */
interface PrefixTree {
  readonly nodes: Map<string, number>;
  tokens: number;
}

/**
 * The cache-aware policy of SGLang's router (`cache_aware.rs`): while the pool is imbalanced the
 * shortest queue; else the replica that was sent the longest prefix, if that is enough of the prompt;
 * else the one with the smallest tree. The trees record what was sent, not what replicas still have.
 */
export class CacheAware implements Policy {
  readonly #options: CacheAwareOptions;
  readonly #trees = new Map<number, PrefixTree>();
  #nextEvictionAtMs: number;

  constructor(options: Partial<CacheAwareOptions> = {}) {
    this.#options = { ...SGLANG_DEFAULTS, ...options };
    this.#nextEvictionAtMs = this.#options.evictionIntervalMs;
  }

  choose(
    request: PolicyRequest,
    replicas: readonly PolicyReplica[],
    { nowMs }: PolicyMoment,
  ): PolicyVerdict {
    if (replicas.length === 0) return REJECTED;
    if (nowMs >= this.#nextEvictionAtMs) this.#evict(nowMs);
    const { replicaIndex } = this.#isImbalanced(replicas)
      ? lowest(replicas, ({ outstanding }) => outstanding)
      : this.#bestByCache(request, replicas);
    insert(this.#treeOf(replicaIndex), request);
    return { kind: "dispatch", replicaIndex };
  }

  #isImbalanced(replicas: readonly PolicyReplica[]): boolean {
    const { imbalanceRequests, imbalanceRatio } = this.#options;
    const loads = replicas.map(({ outstanding }) => outstanding);
    const most = Math.max(...loads);
    const least = Math.min(...loads);
    return most - least > imbalanceRequests && most > imbalanceRatio * least;
  }

  #bestByCache(request: PolicyRequest, replicas: readonly PolicyReplica[]): PolicyReplica {
    const best = lowest(replicas, (replica) => -this.#matchTokens(request, replica));
    const matchRatio = this.#matchTokens(request, best) / Math.max(1, request.promptTokens);
    if (matchRatio > this.#options.matchRatioMin) return best;
    return lowest(replicas, ({ replicaIndex }) => this.#treeOf(replicaIndex).tokens);
  }

  #matchTokens({ prefixes }: PolicyRequest, { replicaIndex }: PolicyReplica): number {
    const { nodes } = this.#treeOf(replicaIndex);
    return prefixes.findLast(({ key }) => nodes.has(key))?.tokens ?? 0;
  }

  #treeOf(replicaIndex: number): PrefixTree {
    const tree = this.#trees.get(replicaIndex) ?? { nodes: new Map<string, number>(), tokens: 0 };
    this.#trees.set(replicaIndex, tree);
    return tree;
  }

  #evict(nowMs: number): void {
    this.#nextEvictionAtMs = nowMs + this.#options.evictionIntervalMs;
    for (const tree of this.#trees.values()) {
      for (const [key, tokens] of tree.nodes) {
        if (tree.tokens <= this.#options.treeTokensMax) break;
        tree.nodes.delete(key);
        tree.tokens -= tokens;
      }
    }
  }
}

function insert(tree: PrefixTree, { requestId, promptTokens, prefixes }: PolicyRequest): void {
  const path = [...prefixes, { key: `rest of ${requestId}`, tokens: promptTokens }];
  // From the leaf to the root, so that a leaf is always older than what it hangs on, and goes first.
  for (let i = path.length - 1; i >= 0; i--) {
    const { key, tokens } = path[i] ?? { key: "", tokens: 0 };
    const added = tokens - (path[i - 1]?.tokens ?? 0);
    if (added <= 0) continue;
    if (!tree.nodes.delete(key)) tree.tokens += added;
    tree.nodes.set(key, added);
  }
}

function lowest(
  replicas: readonly PolicyReplica[],
  valueOf: (replica: PolicyReplica) => number,
): PolicyReplica {
  const [first, ...others] = replicas;
  assert(first !== undefined, "a replica is up");
  return others.reduce((best, other) => (valueOf(other) < valueOf(best) ? other : best), first);
}
