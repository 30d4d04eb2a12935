import { setMaxListeners } from "node:events";

/** A wish to stop that can be waited for, until it is released. */
export interface Interrupt {
  readonly signal: AbortSignal;
  release(): void;
}

/** Turns the first Ctrl-C or SIGTERM into a signal; a second one ends the program as if nobody had listened. */
export function onInterrupt(): Interrupt {
  const controller = new AbortController();
  // Every request under way listens, and there may be thousands.
  setMaxListeners(0, controller.signal);
  const release = () => {
    process.off("SIGINT", onSignal);
    process.off("SIGTERM", onSignal);
  };
  const onSignal = () => {
    release();
    controller.abort();
  };
  process.on("SIGINT", onSignal);
  process.on("SIGTERM", onSignal);
  return { signal: controller.signal, release };
}
