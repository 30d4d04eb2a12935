import type { EventEmitter } from "node:events";
import type { Readable } from "node:stream";
import type { StackEnding } from "./stack.ts";

/** What ends a stack, and how to stop listening for it. */
export interface Endings extends StackEnding {
  release(): void;
}

/** Where a program hears that it should end. */
export interface EndingSources {
  /** Emits the signals that this program is sent: `process` itself. */
  readonly signals: EventEmitter;
  readonly stdout: EventEmitter;
  /** Absent: its end means nothing. */
  readonly stdin: Readable | undefined;
  /** A monotonic clock. */
  readonly readNowMs: () => number;
}

const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

/**
 * One Ctrl-C arrives twice under npm: from the terminal, and from npm, which hands on its own. Nobody
 * asks again so soon.
 */
const SAME_WISH_WITHIN_MS = 500;

/**
 * Listens for what asks this program to end: the first signal stops, a later one kills. The end of
 * stdin and a reader of our output that has gone stop as well.
 */
export function listenForEndings(
  { signals, stdout, stdin, readNowMs }: EndingSources,
  onStop: () => void,
): Endings {
  const stopping = new AbortController();
  const killing = new AbortController();
  let stoppedAtMs = 0;
  const stop = () => {
    if (stopping.signal.aborted) return;
    stoppedAtMs = readNowMs();
    onStop();
    stopping.abort();
  };
  const stopOrKill = () => {
    if (!stopping.signal.aborted) stop();
    else if (readNowMs() - stoppedAtMs >= SAME_WISH_WITHIN_MS) killing.abort();
  };

  for (const signal of SIGNALS) signals.on(signal, stopOrKill);
  stdout.on("error", stop);
  stdin?.once("close", stop).resume();
  return {
    stop: stopping.signal,
    kill: killing.signal,
    release() {
      for (const signal of SIGNALS) signals.off(signal, stopOrKill);
      // An open stdin would keep Node alive when all is done.
      stdin?.off("close", stop).destroy();
    },
  };
}
