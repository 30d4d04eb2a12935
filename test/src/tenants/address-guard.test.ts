import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { addressBlockOf } from "../../../src/tenants/address-block.ts";
import {
  ADDRESSES_MAX,
  AddressGuard,
  FAILURE_INTERVAL_MS,
  FAILURES_BURST,
  LOOKUP_INTERVAL_MS,
  LOOKUPS_BURST,
} from "../../../src/tenants/address-guard.ts";

const ADDRESS = "203.0.113.7";
const NOW_MS = 1_800_000_000_000;

const addressAt = (i: number) => `10.${i >> 16}.${(i >> 8) & 255}.${i & 255}`;

function failTimes(guard: AddressGuard, count: number, address: string, nowMs = NOW_MS): void {
  for (let i = 0; i < count; i += 1) guard.failed(address, nowMs);
}

describe("AddressGuard", () => {
  test("listens to an address until it has failed so often, and again after a while", () => {
    const guard = new AddressGuard();
    failTimes(guard, FAILURES_BURST - 1, ADDRESS);
    expect(guard.blockedMs(ADDRESS, NOW_MS)).toBe(0);
    failTimes(guard, 1, ADDRESS);
    expect(guard.blockedMs(ADDRESS, NOW_MS)).toBe(FAILURE_INTERVAL_MS);
    expect(guard.blockedMs("203.0.113.8", NOW_MS)).toBe(0);
    expect(guard.blockedMs(ADDRESS, NOW_MS + FAILURE_INTERVAL_MS)).toBe(0);
  });

  test("blocks nobody for longer, however often it fails meanwhile", () => {
    const guard = new AddressGuard();
    failTimes(guard, 10_000, ADDRESS);
    expect(guard.blockedMs(ADDRESS, NOW_MS)).toBe(FAILURE_INTERVAL_MS);
  });

  test("does not tell apart the addresses that one client has, nor those that are none", () => {
    const guard = new AddressGuard();
    failTimes(guard, FAILURES_BURST, "2001:db8::1");
    expect(guard.blockedMs("2001:DB8:0:0:ffff::2", NOW_MS)).toBeGreaterThan(0);
    expect(guard.blockedMs("2001:db8:0:1::1", NOW_MS)).toBe(0);
    for (const none of [undefined, "", "unknown", "1.2.3", "x".repeat(1_000)]) {
      for (let i = 0; i < 100; i += 1) guard.failed(none, NOW_MS);
      expect(guard.blockedMs(none, NOW_MS)).toBe(0);
    }
  });

  test("forgets who failed longest ago at its bound", () => {
    const guard = new AddressGuard();
    failTimes(guard, FAILURES_BURST, ADDRESS);
    for (let i = 0; i < ADDRESSES_MAX - 1; i += 1) guard.failed(addressAt(i), NOW_MS);
    guard.checkInvariants();
    expect(guard.blockedMs(ADDRESS, NOW_MS)).toBeGreaterThan(0);
    guard.failed(addressAt(ADDRESSES_MAX), NOW_MS);
    guard.checkInvariants();
    expect(guard.blockedMs(ADDRESS, NOW_MS)).toBe(0);
  });

  test("looks unknown keys up no faster than its bound, whoever sends them", () => {
    const guard = new AddressGuard();
    let taken = 0;
    for (let i = 0; i < 3 * LOOKUPS_BURST; i += 1) taken += guard.takeLookup(NOW_MS) ? 1 : 0;
    expect(taken).toBe(LOOKUPS_BURST);
    expect(guard.takeLookup(NOW_MS + LOOKUP_INTERVAL_MS)).toBe(true);
    expect(guard.takeLookup(NOW_MS + LOOKUP_INTERVAL_MS)).toBe(false);
  });

  test("is not fooled by a clock that was far ahead", () => {
    const guard = new AddressGuard();
    failTimes(guard, FAILURES_BURST, ADDRESS, NOW_MS + 1e9);
    for (let i = 0; i < LOOKUPS_BURST; i += 1) guard.takeLookup(NOW_MS + 1e9);
    expect(guard.blockedMs(ADDRESS, NOW_MS)).toBe(0);
    expect(guard.takeLookup(NOW_MS)).toBe(true);
  });

  test("within any stretch of time lets no more through than burst and rate allow", () => {
    fc.assert(
      fc.property(fc.array(fc.nat(3 * FAILURE_INTERVAL_MS), { maxLength: 200 }), (pauses) => {
        const guard = new AddressGuard();
        let nowMs = NOW_MS;
        const heardAtMs: number[] = [];
        for (const pauseMs of pauses) {
          nowMs += pauseMs;
          if (guard.blockedMs(ADDRESS, nowMs) === 0) heardAtMs.push(nowMs);
          guard.failed(ADDRESS, nowMs);
        }
        for (const [from, fromMs] of heardAtMs.entries()) {
          for (const [to, toMs] of heardAtMs.entries()) {
            if (to < from) continue;
            const allowed = FAILURES_BURST + Math.floor((toMs - fromMs) / FAILURE_INTERVAL_MS);
            expect(to - from + 1).toBeLessThanOrEqual(allowed);
          }
        }
      }),
    );
  });
});

describe("addressBlockOf()", () => {
  test.each([
    ["192.0.2.1", "192.0.2.1"],
    ["::ffff:192.0.2.1", "192.0.2.1"],
    ["2001:db8:1:2:3:4:5:6", "2001:db8:1:2"],
    ["2001:0DB8:0001:0002::", "2001:db8:1:2"],
    ["2001:db8::5:6:7:8:9", "2001:db8:0:5"],
    ["::1", "0:0:0:0"],
    ["::", "0:0:0:0"],
    ["64:ff9b::192.0.2.1", "64:ff9b:0:0"],
    ["1:2:3::192.0.2.1", "1:2:3:0"],
  ])("of %s is %s", (address, block) => {
    expect(addressBlockOf(address)).toBe(block);
  });

  test.each(["", "192.0.2", "192.0.2.256", "1:2:3", ":::", "[::1]", "::1%eth0", "__proto__"])(
    "of %j is none",
    (address) => {
      expect(addressBlockOf(address)).toBeUndefined();
    },
  );
});
