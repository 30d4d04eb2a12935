import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { CallWatch } from "../../workers/call-watch.ts";

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

const inMs = (ms: number) => Date.now() + ms;

describe("CallWatch", () => {
  test("stops a call that goes on beyond its end", () => {
    const watch = new CallWatch(inMs(1000));
    vi.advanceTimersByTime(999);
    expect(watch.reason).toBeUndefined();
    vi.advanceTimersByTime(1);
    expect(watch.reason).toBe("timeout");
    expect(watch.signal.aborted).toBe(true);
    expect(watch.problem).toEqual({ code: "timeout" });
  });

  test("stops a call in which the next thing does not happen in time", () => {
    const watch = new CallWatch(inMs(1000));
    watch.expectBy(inMs(100));
    vi.advanceTimersByTime(80);
    watch.expectBy(inMs(100));
    vi.advanceTimersByTime(99);
    expect(watch.reason).toBeUndefined();
    vi.advanceTimersByTime(1);
    expect(watch.reason).toBe("timeout");
  });

  test("lets nobody put off the end", () => {
    const watch = new CallWatch(inMs(1000));
    watch.expectBy(inMs(5000));
    vi.advanceTimersByTime(1000);
    expect(watch.reason).toBe("timeout");
  });

  test("blames whoever is late", () => {
    const watch = new CallWatch(inMs(1000), () => "client-gone");
    vi.advanceTimersByTime(1000);
    expect(watch.reason).toBe("client-gone");
  });

  test("keeps the first reason", () => {
    const watch = new CallWatch(inMs(1000));
    watch.stop("client-gone");
    watch.stop("timeout");
    watch.expectBy(inMs(1));
    vi.advanceTimersByTime(5000);
    expect(watch.reason).toBe("client-gone");
  });

  test("follows the client's signal, also one that fired before", () => {
    const leaving = new AbortController();
    const watch = new CallWatch(inMs(1000));
    watch.follow(leaving.signal);
    expect(watch.reason).toBeUndefined();
    leaving.abort();
    expect(watch.reason).toBe("client-gone");

    const late = new CallWatch(inMs(1000));
    late.follow(leaving.signal);
    expect(late.reason).toBe("client-gone");
  });

  test("of a call that has ended stops nothing", () => {
    const watch = new CallWatch(inMs(1000));
    watch.dispose();
    vi.advanceTimersByTime(5000);
    expect(watch.reason).toBeUndefined();
  });
});
