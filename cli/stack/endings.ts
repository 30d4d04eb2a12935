import type { StackEnding } from "./stack.ts";

/** What ends a stack, and how to stop listening for it. */
export interface Endings extends StackEnding {
  release(): void;
}

const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

/**
 * Listens for what asks this program to end: the first signal stops, the second kills. So do the end
 * of stdin, if asked for, and a reader of our output that has gone.
 */
export function listenForEndings(withStdin: boolean, onStop: () => void): Endings {
  const stop = new AbortController();
  const kill = new AbortController();
  const end = () => {
    if (stop.signal.aborted) {
      kill.abort();
      return;
    }
    onStop();
    stop.abort();
  };
  const endOnce = () => {
    if (!stop.signal.aborted) end();
  };

  for (const signal of SIGNALS) process.on(signal, end);
  process.stdout.on("error", endOnce);
  if (withStdin) process.stdin.once("close", endOnce).resume();
  return {
    stop: stop.signal,
    kill: kill.signal,
    release() {
      for (const signal of SIGNALS) process.off(signal, end);
      // An open stdin would keep Node alive when all is done.
      if (withStdin) process.stdin.off("close", endOnce).destroy();
    },
  };
}
