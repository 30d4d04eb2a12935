/**
 * Returns a signal that aborts after so long, or with another one that is given. The timer holds it:
 * Node may collect what `AbortSignal.timeout` returns before it fires, and then what waits waits for ever.
 */
export function abortAfter(ms: number, also?: AbortSignal): AbortSignal {
  const controller = new AbortController();
  const onTime = () => controller.abort(new DOMException("Took too long", "TimeoutError"));
  setTimeout(onTime, ms).unref();
  if (also?.aborted === true) controller.abort(also.reason);
  also?.addEventListener("abort", () => controller.abort(also.reason), { once: true });
  return controller.signal;
}

/** Returns a signal that aborts with the first of these; held by them, which `AbortSignal.any`'s is not. */
export function abortWith(signals: readonly AbortSignal[]): AbortSignal {
  const controller = new AbortController();
  for (const signal of signals) {
    const onAbort = (): void => controller.abort(signal.reason);
    if (signal.aborted) onAbort();
    signal.addEventListener("abort", onAbort, { once: true });
  }
  return controller.signal;
}
