import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import type { LabelCount } from "../../src/base/label-counts.ts";
import { errorResponse } from "../../workers/error-response.ts";
import type { CountedRequests } from "../../workers/request-counts.ts";
import { RequestCounts } from "../../workers/request-counts.ts";

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

const OK = 'route="/health",status="200",code=""';
const UNKNOWN = 'route="other",status="404",code="not_found"';

/** Counts of requests, and what was sent of them. */
function someCounts() {
  const counts = new RequestCounts();
  const sent: LabelCount[][] = [];
  const unknown: number[] = [];
  const stale: number[] = [];
  const keep = async (counted: CountedRequests): Promise<void> => {
    sent.push([...counted.requests]);
    unknown.push(counted.unknownParameters);
    stale.push(counted.staleAccesses);
  };
  return { counts, sent, unknown, stale, keep };
}

describe("RequestCounts", () => {
  test("tells answers apart by route, status and code", async () => {
    const { counts, sent, keep } = someCounts();
    counts.count("/health", new Response());
    counts.count("/nowhere", errorResponse({ code: "not_found" }));
    counts.count("/elsewhere", errorResponse({ code: "not_found" }));
    await counts.send(keep);
    expect(sent).toEqual([
      [
        [OK, 1],
        [UNKNOWN, 2],
      ],
    ]);
  });

  test("sends once a second, however many requests come", async () => {
    const { counts, sent, keep } = someCounts();
    for (let index = 0; index < 100; index += 1) {
      counts.count("/health", new Response());
      void counts.sendSoon(keep);
      // oxlint-disable-next-line no-await-in-loop -- one after the other
      await vi.advanceTimersByTimeAsync(25);
    }
    await vi.advanceTimersByTimeAsync(1_000);
    expect(sent.length).toBeLessThanOrEqual(3);
    expect(sent.flat().reduce((sum, [, count]) => sum + count, 0)).toBe(100);
  });

  test("sends how many parameters nobody knows, also again after it did not arrive", async () => {
    const { counts, unknown, keep } = someCounts();
    counts.countUnknownParameters(2);
    await counts.send(async () => Promise.reject(new Error("The Directory is away")));
    counts.countUnknownParameters(3);
    await counts.send(keep);
    await counts.send(keep);
    expect(unknown).toEqual([5]);
  });

  test("sends how many came while the Directory was away once that is back, each once", async () => {
    const { counts, stale, keep } = someCounts();
    counts.countStaleAccess();
    counts.countStaleAccess();
    await counts.send(async () => Promise.reject(new Error("The Directory is away")));
    counts.countStaleAccess();
    await counts.send(keep);
    await counts.send(keep);
    expect(stale).toEqual([3]);
  });

  test("sends nothing where nothing was counted", async () => {
    const { counts, sent, keep } = someCounts();
    await counts.send(keep);
    expect(sent).toEqual([]);
  });

  test("sends again what did not arrive, and counts it once", async () => {
    const { counts, sent, keep } = someCounts();
    counts.count("/health", new Response());
    await counts.send(() => Promise.reject(new Error("away")));
    counts.count("/health", new Response());
    await counts.send(keep);
    expect(sent).toEqual([[[OK, 2]]]);
  });

  test("has another request send when the one that was to has died", async () => {
    const { counts, sent, keep } = someCounts();
    counts.count("/health", new Response());
    void counts.sendSoon(keep);
    // Its invocation ends with all its timers.
    vi.clearAllTimers();
    vi.setSystemTime(Date.now() + 10_000);
    void counts.sendSoon(keep);
    await vi.advanceTimersByTimeAsync(1_000);
    expect(sent).toEqual([[[OK, 1]]]);
  });
});
