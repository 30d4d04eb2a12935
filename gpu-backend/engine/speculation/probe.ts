/** How many steps pass before the first probe, and at most between two. */
export interface ProbeSteps {
  readonly first: number;
  readonly max: number;
}

/** Says when to try again what does not pay: each probe that changes nothing doubles the wait. */
export class Probe {
  readonly #steps: ProbeSteps;
  #waitSteps: number;
  #passedSteps = 0;

  constructor(steps: ProbeSteps) {
    this.#steps = steps;
    this.#waitSteps = steps.first;
  }

  /** Called in each step that goes without. */
  isDue(): boolean {
    this.#passedSteps += 1;
    if (this.#passedSteps < this.#waitSteps) return false;
    this.#passedSteps = 0;
    this.#waitSteps = Math.min(this.#steps.max, 2 * this.#waitSteps);
    return true;
  }

  /** It pays again. */
  reset(): void {
    this.#passedSteps = 0;
    this.#waitSteps = this.#steps.first;
  }
}
