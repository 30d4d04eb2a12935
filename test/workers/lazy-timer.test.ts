import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { LazyTimer } from "../../workers/lazy-timer.ts";

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

/** Returns a timer and the instants, counted from now, at which it called back. */
function aTimer(): { timer: LazyTimer; firedAfterMs: number[]; in: (ms: number) => number } {
  const startedAtMs = Date.now();
  const firedAfterMs: number[] = [];
  const timer = new LazyTimer(() => firedAfterMs.push(Date.now() - startedAtMs));
  return { timer, firedAfterMs, in: (ms) => startedAtMs + ms };
}

describe("LazyTimer", () => {
  test("calls back once, at its instant", () => {
    const { timer, firedAfterMs, in: after } = aTimer();
    timer.set(after(100));
    vi.advanceTimersByTime(1000);
    expect(firedAfterMs).toEqual([100]);
  });

  test("follows an instant that is moved later, time and again", () => {
    const { timer, firedAfterMs, in: after } = aTimer();
    for (let now = 0; now < 500; now += 50) {
      timer.set(after(now + 100));
      vi.advanceTimersByTime(50);
    }
    expect(firedAfterMs).toEqual([]);
    vi.advanceTimersByTime(1000);
    expect(firedAfterMs).toEqual([550]);
  });

  test("follows an instant that is moved earlier", () => {
    const { timer, firedAfterMs, in: after } = aTimer();
    timer.set(after(100));
    timer.set(after(30));
    vi.advanceTimersByTime(1000);
    expect(firedAfterMs).toEqual([30]);
  });

  test("can be set anew when it has fired, also by its own callback", () => {
    const { timer, firedAfterMs, in: after } = aTimer();
    timer.set(after(10));
    vi.advanceTimersByTime(20);
    timer.set(after(50));
    vi.advanceTimersByTime(100);
    expect(firedAfterMs).toEqual([10, 50]);
  });

  test("does not call back once it is cleared, until it is set again", () => {
    const { timer, firedAfterMs, in: after } = aTimer();
    timer.set(after(10));
    timer.clear();
    vi.advanceTimersByTime(100);
    expect(firedAfterMs).toEqual([]);
    timer.set(after(120));
    vi.advanceTimersByTime(100);
    expect(firedAfterMs).toEqual([120]);
  });

  test("of an instant that has passed calls back at once", () => {
    const { timer, firedAfterMs, in: after } = aTimer();
    timer.set(after(-5));
    vi.advanceTimersByTime(0);
    expect(firedAfterMs).toHaveLength(1);
  });
});
