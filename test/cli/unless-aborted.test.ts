import { expect, test } from "vitest";
import { unlessAborted } from "../../cli/unless-aborted.ts";

const NEVER = new Promise<string>(() => undefined);

test("what settles is passed on", async () => {
  const { signal } = new AbortController();
  await expect(unlessAborted(Promise.resolve("yes"), signal)).resolves.toBe("yes");
  await expect(unlessAborted(Promise.reject(new Error("no")), signal)).rejects.toThrow("no");
});

test("what never settles is not waited for once the signal is aborted, before or after", async () => {
  const controller = new AbortController();
  const waiting = unlessAborted(NEVER, controller.signal);
  controller.abort(new Error("over"));
  await expect(waiting).rejects.toThrow("over");
  await expect(unlessAborted(NEVER, controller.signal)).rejects.toThrow("over");
});
