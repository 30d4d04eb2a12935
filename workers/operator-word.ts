import * as z from "zod";
import { ReplicaId } from "../src/protocol/ids.ts";

const CLOSED_KEY = "isClosed";
const DRAINED_KEY = "drainedReplicas";

/**
 * What an operator has said of a pool. It is stored at once and holds in every later life of the pool's object:
 * maintenance that ends by itself, when an idle object is evicted, would be a trap.
 */
export class OperatorWord {
  readonly #kv: SyncKvStorage;
  #isClosed: boolean;
  readonly #drained: Set<ReplicaId>;

  constructor({ kv }: Pick<DurableObjectStorage, "kv">) {
    this.#kv = kv;
    this.#isClosed = kv.get(CLOSED_KEY) === true;
    this.#drained = new Set(z.array(ReplicaId).catch([]).parse(kv.get(DRAINED_KEY)));
  }

  /** Nothing is taken in. */
  get isClosed(): boolean {
    return this.#isClosed;
  }

  set isClosed(isClosed: boolean) {
    if (isClosed) this.#kv.put(CLOSED_KEY, true);
    else this.#kv.delete(CLOSED_KEY);
    this.#isClosed = isClosed;
  }

  /** To which replicas nothing new is sent. */
  get drained(): ReadonlySet<ReplicaId> {
    return this.#drained;
  }

  drain(replicaId: ReplicaId, isDrained: boolean): void {
    if (isDrained) this.#drained.add(replicaId);
    else this.#drained.delete(replicaId);
    this.#store();
  }

  /** Follows a new configuration: of a replica that is not in it nothing is said any more. */
  keepOnly(replicaIds: ReadonlySet<ReplicaId>): void {
    const gone = [...this.#drained].filter((replicaId) => !replicaIds.has(replicaId));
    if (gone.length === 0) return;
    for (const replicaId of gone) this.#drained.delete(replicaId);
    this.#store();
  }

  #store(): void {
    if (this.#drained.size === 0) this.#kv.delete(DRAINED_KEY);
    else this.#kv.put(DRAINED_KEY, [...this.#drained]);
  }
}
