/**
 * Holds the threads of engines behind a step, so that no test has to be quicker than an engine is: what is
 * true while a request runs stays true for as long as the test looks.
 *
 * A thread that is held has told what its step has brought, and seems to be deep in the next one: it hears of
 * no request and of no client that leaves.
 */
export class EngineHold {
  /** Takes the engine threads that this process starts from now on, until the returned function is called. */
  intercept(): () => void;
  /** Each thread waits behind its next step that brings a token. */
  hold(): void;
  /** Lets a thread that is held take one step that brings a token. */
  step(): void;
  letGo(): void;
}
