import { expect, test } from "vitest";
import { reconnectDelayMs } from "../../../gpu-backend/server/reconnect-delay.ts";

test("delays double up to five seconds", () => {
  const longest = [1, 2, 3, 4, 5, 6, 7, 8, 1000].map((n) => reconnectDelayMs(n, () => 1));
  expect(longest).toEqual([100, 200, 400, 800, 1600, 3200, 5000, 5000, 5000]);
});

test("half of a delay is drawn", () => {
  expect(reconnectDelayMs(1000, () => 0)).toBe(2500);
  expect(reconnectDelayMs(1000, () => 0.5)).toBe(3750);
});
