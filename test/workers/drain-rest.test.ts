import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { drainRest } from "../../workers/drain-rest.ts";

const LIMITS = { bytesMax: 1000, durationMsMax: 500 };

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

/** A body of parts of 100 bytes; one without an end stalls after them. */
function aBody(partCount: number, end: "closed" | "stalled" | "broken" = "closed") {
  const seen = { partsTaken: 0, isCancelled: false };
  const body = new ReadableStream<Uint8Array>(
    {
      pull: async (controller) => {
        if (seen.partsTaken < partCount) {
          seen.partsTaken += 1;
          controller.enqueue(new Uint8Array(100));
        } else if (end === "closed") controller.close();
        else if (end === "broken") controller.error(new Error("the sender has left"));
        else await new Promise(() => {});
      },
      cancel: () => {
        seen.isCancelled = true;
      },
    },
    { highWaterMark: 0 },
  );
  return { reader: body.getReader(), seen };
}

describe("drainRest()", () => {
  test("a rest within the limit is read to its end", async () => {
    const { reader, seen } = aBody(10);
    await drainRest(reader, LIMITS);
    expect(seen).toEqual({ partsTaken: 10, isCancelled: false });
    expect(await reader.read()).toEqual({ done: true, value: undefined });
  });

  test("a larger rest is refused as soon as it shows, not read on", async () => {
    const { reader, seen } = aBody(1_000_000);
    await drainRest(reader, LIMITS);
    expect(seen).toEqual({ partsTaken: 11, isCancelled: true });
  });

  test("a sender that stalls is refused in the end", async () => {
    const { reader, seen } = aBody(3, "stalled");
    const drained = drainRest(reader, LIMITS);
    await vi.advanceTimersByTimeAsync(LIMITS.durationMsMax - 1);
    expect(seen).toEqual({ partsTaken: 3, isCancelled: false });
    await vi.advanceTimersByTimeAsync(1);
    await drained;
    expect(seen.isCancelled).toBe(true);
  });

  test("a sender that leaves is no failure, and no timer outlives the drain", async () => {
    const { reader } = aBody(3, "broken");
    await drainRest(reader, LIMITS);
    expect(vi.getTimerCount()).toBe(0);
  });
});
