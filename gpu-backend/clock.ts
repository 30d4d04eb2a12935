/**
 * Returns the machine's monotonic clock in milliseconds.
 *
 * `performance.now()` starts anew in every thread, so an instant taken on the main thread would
 * mean nothing to the engine thread; `hrtime` counts from one origin in all of them.
 */
export function monotonicNowMs(): number {
  const [seconds, nanoseconds] = process.hrtime();
  return seconds * 1000 + nanoseconds / 1e6;
}
