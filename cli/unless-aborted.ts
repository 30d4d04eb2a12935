/**
 * Settles as the promise does, or rejects with the signal's reason once that is aborted. What waits for a
 * `fetch` needs it besides its signal: one whose answer came just when it was aborted was seen to settle never.
 */
export async function unlessAborted<Value>(
  promise: Promise<Value>,
  signal: AbortSignal,
): Promise<Value> {
  const settled = new AbortController();
  const aborted = new Promise<never>((_, reject) => {
    const onAbort = (): void => reject(signal.reason);
    if (signal.aborted) onAbort();
    else signal.addEventListener("abort", onAbort, { once: true, signal: settled.signal });
  });
  try {
    return await Promise.race([promise, aborted]);
  } finally {
    settled.abort();
    // Nobody hears of it any more, and that is no fault.
    promise.catch(() => undefined);
  }
}
