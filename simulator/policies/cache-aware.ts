import { assert } from "../../src/base/assert.ts";
import {
  type Policy,
  type PolicyMoment,
  type PolicyReplica,
  type PolicyRequest,
  type PolicyVerdict,
  REJECTED,
} from "./policy.ts";

const MATCH_RATIO_MIN = 0.5;
const IMBALANCE_MIN = 32;
const IMBALANCE_RATIO_MIN = 1.1;
const EVICTION_INTERVAL_MS = 30_000;
/** The source bounds a tree by 2²⁶ characters; a token has about four. */
const TREE_TOKENS_MAX = 2 ** 24;

/** What one replica was sent: by prefix, the tokens it adds to the one before; least recently used first. */
interface PrefixTree {
  readonly nodes: Map<string, number>;
  tokens: number;
}

/**
 * The cache-aware policy of SGLang's router (`cache_aware.rs`) with the defaults of its code: where
 * loads differ by more than 32 requests and by more than 1.1 times, the shortest queue; else the
 * replica that was sent the longest prefix, if that is over half of the prompt; else the replica with
 * the smallest tree. The trees record what was sent, not what the replicas still have.
 */
export class CacheAware implements Policy {
  readonly #trees = new Map<number, PrefixTree>();
  #nextEvictionAtMs = EVICTION_INTERVAL_MS;

  choose(
    request: PolicyRequest,
    replicas: readonly PolicyReplica[],
    { nowMs }: PolicyMoment,
  ): PolicyVerdict {
    if (replicas.length === 0) return REJECTED;
    if (nowMs >= this.#nextEvictionAtMs) this.#evict(nowMs);
    const { replicaIndex } = isImbalanced(replicas)
      ? lowest(replicas, ({ outstanding }) => outstanding)
      : this.#bestByCache(request, replicas);
    insert(this.#treeOf(replicaIndex), request);
    return { kind: "dispatch", replicaIndex };
  }

  #bestByCache(request: PolicyRequest, replicas: readonly PolicyReplica[]): PolicyReplica {
    const best = lowest(replicas, (replica) => -this.#matchTokens(request, replica));
    const matchRatio = this.#matchTokens(request, best) / Math.max(1, request.promptTokens);
    if (matchRatio > MATCH_RATIO_MIN) return best;
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
    this.#nextEvictionAtMs = nowMs + EVICTION_INTERVAL_MS;
    for (const tree of this.#trees.values()) {
      for (const [key, tokens] of tree.nodes) {
        if (tree.tokens <= TREE_TOKENS_MAX) break;
        tree.nodes.delete(key);
        tree.tokens -= tokens;
      }
    }
  }
}

function isImbalanced(replicas: readonly PolicyReplica[]): boolean {
  const loads = replicas.map(({ outstanding }) => outstanding);
  const most = Math.max(...loads);
  const least = Math.min(...loads);
  return most - least > IMBALANCE_MIN && most > IMBALANCE_RATIO_MIN * least;
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
