import { setTimeout as sleep } from "node:timers/promises";
import type { LoadClock } from "./run-load.ts";

/** Timers of Node fire up to a millisecond early or late; what is nearer than this is due. */
const NEAR_MS = 0.5;

/** The clock of this machine. */
export const WALL_CLOCK: LoadClock = {
  readNowMs: () => performance.now(),
  async waitUntil(atMs, signal) {
    for (;;) {
      const leftMs = atMs - performance.now();
      if (leftMs <= NEAR_MS || signal.aborted) return;
      try {
        await sleep(leftMs, undefined, { signal });
      } catch {
        return;
      }
    }
  },
};
