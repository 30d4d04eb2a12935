import { LazyTimer } from "./lazy-timer.ts";

/** How much of a body nobody wants is still read. */
export interface DrainLimits {
  readonly bytesMax: number;
  readonly durationMsMax: number;
}

/** Cloudflare refuses larger bodies than this by itself, and throwing bytes away takes no memory. */
const DRAIN_LIMITS: DrainLimits = { bytesMax: 100_000_000, durationMsMax: 5_000 };

/**
 * Reads what is left of a body and throws it away; beyond its limits the rest is refused. Never
 * rejects: a sender that goes away has ended its body as well.
 *
 * An HTTP/1.1 proxy in front of the Worker (that of `wrangler dev` is one) takes a connection whose
 * request was answered half-read for a whole one, and the next request on it dies.
 */
export async function drainRest(
  reader: ReadableStreamDefaultReader<Uint8Array>,
  limits: DrainLimits = DRAIN_LIMITS,
): Promise<void> {
  // Cancelling ends a read that is under way.
  const refuseRest = (): Promise<void> => reader.cancel().catch(() => {});
  const timer = new LazyTimer(() => void refuseRest());
  timer.set(Date.now() + limits.durationMsMax);
  try {
    for (let leftBytes = limits.bytesMax; leftBytes >= 0;) {
      // oxlint-disable-next-line no-await-in-loop -- the next part comes after this one
      const { done, value } = await reader.read();
      if (done) return;
      leftBytes -= value.length;
    }
    await refuseRest();
  } catch {
    return;
  } finally {
    timer.clear();
  }
}
