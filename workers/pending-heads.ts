import { assert } from "../src/base/assert.ts";

/**
 * Of one invocation's connections so many may wait for their head: the runtime lets a further one begin
 * only when another one's head has come.
 */
const PENDING_MAX = 6;

/** Counts a call's connections whose head has not come. */
export class PendingHeads {
  #count = 0;

  get isFull(): boolean {
    return this.#count >= PENDING_MAX;
  }

  /** Counts one more until its head is there, or it has failed. */
  async during<Head>(head: () => Promise<Head>): Promise<Head> {
    assert(!this.isFull, "a connection is begun only while it need not wait for another one");
    this.#count += 1;
    try {
      return await head();
    } finally {
      this.#count -= 1;
    }
  }
}
