import { expect, test, vi } from "vitest";
import { askAnew } from "../../workers/ask-anew.ts";

const reset = () => Object.assign(new Error("reset"), { durableObjectReset: true });

test("an object that was reset meanwhile is asked once more, and its answer is the answer", async () => {
  const ask = vi
    .fn<() => Promise<string>>()
    .mockRejectedValueOnce(reset())
    .mockResolvedValue("yes");
  expect(await askAnew(ask)).toBe("yes");
  expect(ask).toHaveBeenCalledTimes(2);
});

test("but not a third time", async () => {
  const ask = vi.fn<() => Promise<string>>().mockRejectedValue(reset());
  await expect(askAnew(ask)).rejects.toThrow("reset");
  expect(ask).toHaveBeenCalledTimes(2);
});

test.each([
  ["that has too much to do", Object.assign(reset(), { overloaded: true })],
  ["that refuses", new Error("no")],
])("nor one %s", async (_, error) => {
  const ask = vi.fn<() => Promise<string>>().mockRejectedValue(error);
  await expect(askAnew(ask)).rejects.toThrow(error);
  expect(ask).toHaveBeenCalledTimes(1);
});
