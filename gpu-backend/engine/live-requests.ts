import { assert } from "../../src/base/assert.ts";
import type { Scheduler } from "./scheduler.ts";
import type { Sequence } from "./sequence.ts";

/** The requests between their submission and their end, each of which is let go of once. */
export class LiveRequests {
  readonly #sequences = new Map<string, Sequence>();

  get count(): number {
    return this.#sequences.size;
  }

  add(sequence: Sequence): void {
    this.#sequences.set(sequence.id, sequence);
  }

  /** `undefined`: it has ended, or never came. */
  find(id: string): Sequence | undefined {
    return this.#sequences.get(id);
  }

  of(id: string): Sequence {
    const sequence = this.find(id);
    assert(sequence !== undefined, `Request ${id} is live`);
    return sequence;
  }

  /** Lets go of a request that ended, and of what it holds besides KV. */
  forget(sequence: Sequence): void {
    assert(this.#sequences.delete(sequence.id), `Request ${sequence.id} ends once`);
    sequence.dispose();
  }

  /** Throws unless each of them either waits or runs, and nobody else does. */
  checkInvariants({ waiting, running }: Scheduler): void {
    assert(waiting.length + running.length === this.count, "Live requests wait or run");
    for (const sequence of [...waiting, ...running]) {
      assert(this.find(sequence.id) === sequence, `Request ${sequence.id} is live`);
    }
  }
}
