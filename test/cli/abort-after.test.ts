import { expect, test } from "vitest";
import { abortAfter, abortWith } from "../../cli/abort-after.ts";

const aborted = (signal: AbortSignal) =>
  new Promise((resolve) => signal.addEventListener("abort", () => resolve(signal.reason)));

test("a signal aborts after its time, as too late", async () => {
  const reason = await aborted(abortAfter(5));
  expect(reason).toMatchObject({ name: "TimeoutError" });
});

test("a signal aborts with the one it goes along with, whether that is over already or not", () => {
  const controller = new AbortController();
  const before = abortAfter(60_000, controller.signal);
  controller.abort("enough");
  expect(before.reason).toBe("enough");
  expect(abortAfter(60_000, controller.signal).reason).toBe("enough");
});

test("a signal aborts with the first of several, for its reason", () => {
  const [first, second] = [new AbortController(), new AbortController()];
  const signal = abortWith([first.signal, second.signal]);
  expect(signal.aborted).toBe(false);
  second.abort("second");
  first.abort("first");
  expect(signal.reason).toBe("second");
  expect(abortWith([first.signal, new AbortController().signal]).reason).toBe("first");
});
