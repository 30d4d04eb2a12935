import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import type { Prospects } from "../../src/pool/offer.ts";
import { StallWatch } from "../../workers/stall-watch.ts";

const HOPE: Prospects = { hasOther: true, isSilent: false };
const ALONE: Prospects = { hasOther: false, isSilent: false };

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

/** A watch that marks after 500 ms and gives up after 3 s, and what it has done by when. */
function aStallWatch(options: { prospects?: Prospects | "nobody"; isBlocked?: boolean } = {}) {
  const { prospects = HOPE, isBlocked = false } = options;
  const beganAtMs = Date.now();
  const stallsAtMs: number[] = [];
  const gaveUpAtMs: number[] = [];
  const watch = new StallWatch({
    markMs: 500,
    giveUpMs: 3_000,
    isBlocked: () => isBlocked,
    onStall: () => stallsAtMs.push(Date.now() - beganAtMs),
    ...(prospects !== "nobody" && { prospects: async () => prospects }),
  });
  watch.signal.addEventListener("abort", () => gaveUpAtMs.push(Date.now() - beganAtMs));
  return { watch, stallsAtMs, gaveUpAtMs };
}

describe("StallWatch", () => {
  test("tells of a pause while it lasts, once, and gives the stream up for another replica", async () => {
    const { watch, stallsAtMs, gaveUpAtMs } = aStallWatch();
    watch.heard(Date.now());
    await vi.advanceTimersByTimeAsync(60_000);
    expect([stallsAtMs, gaveUpAtMs]).toEqual([[500], [3_000]]);
  });

  test("gives up sooner what is not heard of any more", async () => {
    const { watch, gaveUpAtMs } = aStallWatch({ prospects: { ...HOPE, isSilent: true } });
    watch.heard(Date.now());
    await vi.advanceTimersByTimeAsync(60_000);
    expect(gaveUpAtMs).toEqual([2_500]);
  });

  test.each([
    ["there is no other replica", { prospects: ALONE }],
    ["no other one could go on", { prospects: "nobody" as const }],
  ])("waits on where %s", async (_, options) => {
    const { watch, stallsAtMs, gaveUpAtMs } = aStallWatch(options);
    watch.heard(Date.now());
    await vi.advanceTimersByTimeAsync(60_000);
    expect([stallsAtMs, gaveUpAtMs]).toEqual([[500], []]);
  });

  test("takes a client that does not read for no stall", async () => {
    const { watch, stallsAtMs, gaveUpAtMs } = aStallWatch({ isBlocked: true });
    watch.heard(Date.now());
    await vi.advanceTimersByTimeAsync(60_000);
    expect([stallsAtMs, gaveUpAtMs]).toEqual([[], []]);
  });

  test("begins anew with whatever is heard", async () => {
    const { watch, stallsAtMs, gaveUpAtMs } = aStallWatch();
    for (let pause = 0; pause < 5; pause += 1) {
      watch.heard(Date.now());
      // oxlint-disable-next-line no-await-in-loop -- pauses come one after the other
      await vi.advanceTimersByTimeAsync(2_000);
    }
    watch.end();
    await vi.advanceTimersByTimeAsync(60_000);
    expect([stallsAtMs, gaveUpAtMs]).toEqual([[500, 2_500, 4_500, 6_500, 8_500], []]);
  });
});
