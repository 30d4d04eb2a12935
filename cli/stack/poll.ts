import { setTimeout as sleep } from "node:timers/promises";

const POLL_MS = 50;

/**
 * Asks again and again until the answer is yes. Rejects with what `ask` throws, or with the signal's
 * reason once that is aborted.
 */
export async function pollUntil(ask: () => Promise<boolean>, signal: AbortSignal): Promise<void> {
  for (;;) {
    signal.throwIfAborted();
    // The next question waits for the answer to the one before it.
    // oxlint-disable-next-line no-await-in-loop
    if (await ask()) return;
    // oxlint-disable-next-line no-await-in-loop
    await sleep(POLL_MS);
  }
}

/** Resolves once the signal is aborted. */
export function whenAborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener("abort", () => resolve(), { once: true });
  });
}
