import { setTimeout as sleep } from "node:timers/promises";
import { unlessAborted } from "../unless-aborted.ts";

const POLL_MS = 50;
/** A question that is not answered by then is asked anew; whoever asks has a shorter limit of its own. */
const ANSWER_MS_MAX = 30_000;

/**
 * Asks again and again until the answer is yes. Rejects with what `ask` throws, or with the signal's
 * reason once that is aborted, even if a question is never answered.
 */
export async function pollUntil(
  ask: () => Promise<boolean>,
  signal: AbortSignal,
  answerMsMax = ANSWER_MS_MAX,
): Promise<void> {
  for (;;) {
    signal.throwIfAborted();
    const late = new AbortController();
    const timer = setTimeout(() => late.abort(), answerMsMax);
    try {
      // The next question waits for the answer to the one before it.
      // oxlint-disable-next-line no-await-in-loop
      if (await unlessAborted(unlessAborted(ask(), signal), late.signal)) return;
    } catch (error) {
      if (!late.signal.aborted || signal.aborted) throw error;
    } finally {
      clearTimeout(timer);
    }
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
