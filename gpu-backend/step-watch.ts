/** Positions in the memory that both threads see. */
const ENTERED = 0;
const LEFT = 1;

/**
 * Lets the main thread see that a step does not end.
 *
 * A thread inside ONNX Runtime answers nothing, so it cannot be asked; it counts its steps in
 * shared memory instead, when it enters one and when it leaves it.
 */
export class StepWatch {
  readonly #counts: Int32Array;
  #seenStep = 0;
  #seenAtMs = 0;

  constructor(sharedMemory: SharedArrayBuffer) {
    this.#counts = new Int32Array(sharedMemory);
  }

  enter(): void {
    Atomics.add(this.#counts, ENTERED, 1);
  }

  leave(): void {
    Atomics.add(this.#counts, LEFT, 1);
  }

  /** Returns since when the step in progress has been seen to run; 0 between two steps. */
  runningMs(nowMs: number): number {
    const step = Atomics.load(this.#counts, ENTERED);
    if (Atomics.load(this.#counts, LEFT) === step) return 0;
    if (this.#seenStep !== step) {
      this.#seenStep = step;
      this.#seenAtMs = nowMs;
    }
    return nowMs - this.#seenAtMs;
  }
}

/** Returns memory for one `StepWatch` on each of two threads. */
export function createStepWatchMemory(): SharedArrayBuffer {
  return new SharedArrayBuffer(2 * Int32Array.BYTES_PER_ELEMENT);
}
