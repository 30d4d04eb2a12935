import { daysSinceEpoch, MS_PER_DAY } from "./units.ts";

/** A month in UTC, counted from January of the year 0. */
export type CalendarMonth = number;

const MONTHS_PER_YEAR = 12;
/** Of the Gregorian calendar, over its 400 years. */
const MEAN_MONTH_MS = (146_097 / 4_800) * MS_PER_DAY;
const EPOCH_MONTH: CalendarMonth = 1970 * MONTHS_PER_YEAR;

/** The month that an instant lies in. */
export function calendarMonthOf(atMs: number): CalendarMonth {
  // Months differ by less than a mean one from where an even spacing would put them.
  const guess = EPOCH_MONTH + Math.floor(atMs / MEAN_MONTH_MS);
  if (atMs < monthBeginsAtMs(guess)) return guess - 1;
  return atMs < monthBeginsAtMs(guess + 1) ? guess : guess + 1;
}

/** When a month begins. */
export function monthBeginsAtMs(month: CalendarMonth): number {
  const { year, monthOfYear } = partsOf(month);
  return daysSinceEpoch(year, monthOfYear, 1) * MS_PER_DAY;
}

/** Writes a month as `2027-06`. */
export function monthText(month: CalendarMonth): string {
  const { year, monthOfYear } = partsOf(month);
  return `${year}-${String(monthOfYear).padStart(2, "0")}`;
}

function partsOf(month: CalendarMonth): { year: number; monthOfYear: number } {
  const year = Math.floor(month / MONTHS_PER_YEAR);
  return { year, monthOfYear: month - year * MONTHS_PER_YEAR + 1 };
}
