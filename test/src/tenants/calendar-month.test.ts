import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  calendarMonthOf,
  monthBeginsAtMs,
  monthText,
} from "../../../src/tenants/calendar-month.ts";

describe("calendarMonthOf()", () => {
  test("agrees with the calendar of the platform, in UTC, from 1970 to 2370", () => {
    const instants = fc.date({
      min: new Date(0),
      max: new Date("2370-01-01"),
      noInvalidDate: true,
    });
    fc.assert(
      fc.property(instants, (date) => {
        expect(monthText(calendarMonthOf(date.getTime()))).toBe(date.toISOString().slice(0, 7));
      }),
    );
  });

  test.each(["1970-01-01", "2027-03-01", "2028-03-01", "2100-03-01", "2026-12-01"])(
    "changes in the moment in which %s begins",
    (day) => {
      const month = calendarMonthOf(Date.parse(day));
      expect(monthBeginsAtMs(month)).toBe(Date.parse(day));
      expect(calendarMonthOf(Date.parse(day) - 1)).toBe(month - 1);
    },
  );
});
