import { assert } from "../../src/base/assert.ts";
import type {
  Policy,
  PolicyMoment,
  PolicyReplica,
  PolicyRequest,
  PolicyVerdict,
} from "./policy.ts";
import { REJECTED } from "./policy.ts";

/** How much each scorer counts; only their ratios matter. */
export interface ScorerWeights {
  readonly prefix: number;
  readonly queue: number;
  readonly kvUsage: number;
}

/** As llm-d's guides set them: `prefix-cache-scorer` 3, `queue-scorer` 2, `kv-cache-utilization-scorer` 2. */
const LLM_D_WEIGHTS: ScorerWeights = { prefix: 3, queue: 2, kvUsage: 2 };

/** `DefaultLRUCapacityPerServer` of the inference gateway's prefix plugin: blocks that it remembers of each. */
const BLOCKS_PER_REPLICA_MAX = 31_250;

/**
 * The endpoint picker of the Kubernetes inference gateway as llm-d configures it: each replica's score is a
 * weighted sum of how much of the prompt was sent there before, how short its queue is beside the others',
 * and how much of its KV memory is free; the highest wins, equals by chance.
 */
export class WeightedScorers implements Policy {
  readonly #weights: ScorerWeights;
  /** What each replica was sent, least recently first. */
  readonly #sent = new Map<number, Set<string>>();

  constructor(weights: ScorerWeights = LLM_D_WEIGHTS) {
    this.#weights = weights;
  }

  choose(
    request: PolicyRequest,
    replicas: readonly PolicyReplica[],
    { random }: PolicyMoment,
  ): PolicyVerdict {
    if (replicas.length === 0) return REJECTED;
    const queues = replicas.map(({ queuedRequests }) => queuedRequests);
    const [shortest, longest] = [Math.min(...queues), Math.max(...queues)];
    const scored = replicas.map((replica) => {
      const queue =
        longest === shortest ? 1 : (longest - replica.queuedRequests) / (longest - shortest);
      const score =
        this.#weights.prefix * this.#prefixScore(request, replica) +
        this.#weights.queue * queue +
        this.#weights.kvUsage * (1 - replica.usedKvRatio);
      return { replica, score };
    });
    const best = scored.reduce((most, { score }) => Math.max(most, score), -Infinity);
    const equals = scored.filter(({ score }) => score === best);
    const chosen = equals[Math.floor(random() * equals.length)]?.replica;
    assert(chosen !== undefined, "a replica is up");
    this.#note(request, chosen);
    return { kind: "dispatch", replicaIndex: chosen.replicaIndex };
  }

  /** Which part of the prompt's blocks was sent there, from the first one on. */
  #prefixScore({ prefixes }: PolicyRequest, { replicaIndex }: PolicyReplica): number {
    const sent = this.#sent.get(replicaIndex);
    if (sent === undefined || prefixes.length === 0) return 0;
    const unlike = prefixes.findIndex(({ key }) => !sent.has(key));
    return (unlike === -1 ? prefixes.length : unlike) / prefixes.length;
  }

  #note({ prefixes }: PolicyRequest, { replicaIndex }: PolicyReplica): void {
    const sent = this.#sent.get(replicaIndex) ?? new Set<string>();
    this.#sent.set(replicaIndex, sent);
    for (const { key } of prefixes.toReversed()) {
      sent.delete(key);
      sent.add(key);
    }
    for (const key of sent) {
      if (sent.size <= BLOCKS_PER_REPLICA_MAX) break;
      sent.delete(key);
    }
  }
}
