import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  parseCount,
  parseDateAtMs,
  parseDurationMs,
  parseRatio,
} from "../../../src/tenants/units.ts";

describe("parseDurationMs()", () => {
  test.each([
    ["300ms", 300],
    ["250.5ms", 250.5],
    ["8s", 8000],
    ["1.1s", 1100],
    ["2m", 120_000],
    ["1h", 3_600_000],
    ["0s", 0],
  ])("reads %s as %d ms", (text, durationMs) => {
    expect(parseDurationMs(text)).toBe(durationMs);
  });

  test.each(["", "300", "ms", "-1s", "1 s", "1e3ms", "1.s", ".5s", "1s ", "5 minutes", "1d", "∞s"])(
    "reads no duration in %j",
    (text) => {
      expect(parseDurationMs(text)).toBeUndefined();
    },
  );

  test("is exact for every decimal of milliseconds in seconds", () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 10_000_000 }), (ms) => {
        const text = `${Math.floor(ms / 1000)}.${String(ms % 1000).padStart(3, "0")}s`;
        expect(parseDurationMs(text)).toBe(ms);
      }),
    );
  });
});

describe("parseCount()", () => {
  test.each([
    ["64", 64],
    ["32k", 32_000],
    ["400k", 400_000],
    ["1.5M", 1_500_000],
    ["2G", 2_000_000_000],
    ["0", 0],
  ])("reads %s as %d", (text, count) => {
    expect(parseCount(text)).toBe(count);
  });

  test.each(["", "k", "1.5", "0.0001k", "-1", "1K", "1m", "1kk", "0x10", "9007199254740993"])(
    "reads no count in %j",
    (text) => {
      expect(parseCount(text)).toBeUndefined();
    },
  );
});

describe("parseRatio()", () => {
  test.each([
    ["20%", 0.2],
    ["0.5%", 0.005],
    ["0%", 0],
    ["100%", 1],
  ])("reads %s as %d", (text, ratio) => {
    expect(parseRatio(text)).toBe(ratio);
  });

  test.each(["", "%", "20", "0.2", "101%", "-1%", "20 %"])("reads no ratio in %j", (text) => {
    expect(parseRatio(text)).toBeUndefined();
  });
});

describe("parseDateAtMs()", () => {
  test("agrees with the platform's calendar on every date it accepts or refuses", () => {
    const years = fc.integer({ min: 0, max: 9999 });
    const months = fc.integer({ min: 0, max: 13 });
    const days = fc.integer({ min: 0, max: 32 });
    fc.assert(
      fc.property(years, months, days, (year, month, day) => {
        const text = [
          String(year).padStart(4, "0"),
          String(month).padStart(2, "0"),
          String(day).padStart(2, "0"),
        ].join("-");
        const platform = new Date(`${text}T00:00:00.000Z`);
        // The platform lets 31 April roll over into May.
        const exists = !Number.isNaN(platform.getTime()) && platform.toISOString().startsWith(text);
        expect(parseDateAtMs(text)).toBe(exists ? platform.getTime() : undefined);
      }),
      { numRuns: 5000 },
    );
  });

  test.each(["2000-02-29", "2024-02-29", "2027-06-30", "1970-01-01"])("accepts %s", (text) => {
    expect(parseDateAtMs(text)).toBe(Date.parse(text));
  });

  test.each(["1900-02-29", "2027-02-29", "2027-6-30", "30.06.2027", "2027-06-30T00:00Z", ""])(
    "reads no date in %j",
    (text) => {
      expect(parseDateAtMs(text)).toBeUndefined();
    },
  );
});
