/** One entry of the pool's count of what it sent here. */
export interface DispatchMark {
  readonly epoch: string;
  readonly number: number;
}

const EPOCH_CHARACTERS_MAX = 64;
/** A request overtaken by a new epoch is at most seconds late; a pool restarts far less often. */
const RETIRED_EPOCHS_MAX = 8;

/**
 * Remembers the highest dispatch of the pool's current epoch that arrived here. The pool subtracts
 * from what it believes to be on its way, so a straggler of an old epoch must not bring that back.
 */
export class DispatchTracker {
  #last: DispatchMark | undefined;
  readonly #retiredEpochs = new Set<string>();

  get last(): DispatchMark | undefined {
    return this.#last;
  }

  note(mark: DispatchMark): void {
    if (this.#retiredEpochs.has(mark.epoch)) return;
    if (this.#last !== undefined && this.#last.epoch !== mark.epoch) this.#retire(this.#last.epoch);
    else if (this.#last !== undefined && mark.number <= this.#last.number) return;
    this.#last = mark;
  }

  #retire(epoch: string): void {
    this.#retiredEpochs.add(epoch);
    for (const oldest of this.#retiredEpochs) {
      if (this.#retiredEpochs.size <= RETIRED_EPOCHS_MAX) return;
      this.#retiredEpochs.delete(oldest);
    }
  }
}

/** Reads the value of `x-gw-dispatch`, `<epoch>.<number>`; undefined when it is none. */
export function parseDispatchMark(text: string): DispatchMark | undefined {
  const match = /^(.+)\.([1-9]\d{0,14})$/.exec(text);
  const [, epoch, digits] = match ?? [];
  if (epoch === undefined || epoch.length > EPOCH_CHARACTERS_MAX) return undefined;
  return { epoch, number: Number(digits) };
}
