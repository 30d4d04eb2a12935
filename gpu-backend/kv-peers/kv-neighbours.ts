import { withoutSlash } from "../server/engine-headers.ts";
import type { KvLender } from "./kv-lender.ts";

/**
 * The engines of one process that serve, each by the address by which the gateway names it. KV goes between
 * their threads in memory. They are of one operator, who gave all of them one secret.
 */
export class KvNeighbours {
  readonly #lenders = new Map<string, KvLender>();

  /** Returns what takes it out again, as soon as it does not serve any more. */
  join(url: string, lender: KvLender): () => void {
    const key = withoutSlash(url);
    this.#lenders.set(key, lender);
    return () => {
      if (this.#lenders.get(key) === lender) this.#lenders.delete(key);
    };
  }

  lenderOf(url: string): KvLender | undefined {
    return this.#lenders.get(url);
  }
}
