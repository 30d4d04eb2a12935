import { expect, test } from "vitest";
import { isLoopbackHost } from "../../../src/base/loopback-host.ts";

test.each([
  ["127.0.0.1", true],
  ["127.8.8.8", true],
  ["localhost", true],
  ["::1", true],
  ["[::1]", true],
  ["0.0.0.0", false],
  ["::", false],
  ["192.168.0.7", false],
  ["127.evil.example", false],
])("%s is reached from this machine alone: %s", (host, isLoopback) => {
  expect(isLoopbackHost(host)).toBe(isLoopback);
});
