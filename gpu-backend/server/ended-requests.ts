import type { EndedUsage } from "../../src/protocol/engine-usage.ts";

/** At a hundred requests a second the last minutes; some 200 bytes each. */
const ENDED_REQUESTS_MAX = 20_000;

/**
 * Remembers what the last requests have cost, for a gateway that died before it could settle them: only
 * the engine still knows then how far they came. Forgets the oldest first.
 */
export class EndedRequests {
  readonly #countMax: number;
  readonly #usage = new Map<string, EndedUsage>();

  constructor(countMax = ENDED_REQUESTS_MAX) {
    this.#countMax = countMax;
  }

  /** Takes a request down. Of one that came more than once the part that went furthest counts. */
  note(usage: EndedUsage): void {
    const { request_id: requestId, completion_tokens: outputTokens } = usage;
    const before = this.#usage.get(requestId);
    if (before !== undefined && before.completion_tokens > outputTokens) return;
    this.#usage.delete(requestId);
    this.#usage.set(requestId, usage);
    if (this.#usage.size <= this.#countMax) return;
    const [oldest] = this.#usage.keys();
    if (oldest !== undefined) this.#usage.delete(oldest);
  }

  /** What requests have cost, of those that are remembered. */
  of(requestIds: readonly string[]): EndedUsage[] {
    return requestIds.flatMap((requestId) => this.#usage.get(requestId) ?? []);
  }
}
