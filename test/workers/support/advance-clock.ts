import { onTestFinished, vi } from "vitest";

/** Moves the clock that objects read ahead, until the test is over; timers keep to the real one. */
export function advanceClock(byMs: number): void {
  vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + byMs });
  onTestFinished(() => {
    vi.useRealTimers();
  });
}
