/** Seconds in a unit of time; `ms` is written apart, since 0.001 is no exact number. */
const SECONDS: ReadonlyMap<string, number> = new Map([
  ["s", 1],
  ["m", 60],
  ["h", 3600],
]);

/** Decimal throughout: `32k` tokens are 32,000, not 32,768. */
const EXPONENTS: ReadonlyMap<string, number> = new Map([
  ["", 0],
  ["k", 3],
  ["M", 6],
  ["G", 9],
]);

/** The notations as patterns, for an editor: what is read below fits them. */
export const PATTERNS = {
  duration: "^\\d+(\\.\\d+)?(ms|s|m|h)$",
  count: "^\\d+(\\.\\d+)?[kMG]?$",
  ratio: "^\\d+(\\.\\d+)?%$",
  date: "^\\d{4}-\\d{2}-\\d{2}$",
} as const;

export const MS_PER_DAY = 86_400_000;

/** Reads a duration such as `300ms`, `1.5s`, `2m` or `1h`; undefined for anything else. */
export function parseDurationMs(text: string): number | undefined {
  const [, digits = "", unit = ""] = /^(\d+(?:\.\d+)?)(ms|s|m|h)$/.exec(text) ?? [];
  if (digits === "") return undefined;
  // The text's own decimal point is moved: 1.1 * 1000 would be 1100.0000000000002.
  return unit === "ms" ? Number(digits) : Number(`${digits}e3`) * (SECONDS.get(unit) ?? 1);
}

/** Reads a whole number such as `64`, `400k`, `1.5M` or `2G`; undefined for anything else. */
export function parseCount(text: string): number | undefined {
  const [, digits = "", suffix = ""] = /^(\d+(?:\.\d+)?)([kMG]?)$/.exec(text) ?? [];
  const count = Number(`${digits}e${EXPONENTS.get(suffix) ?? 0}`);
  return digits !== "" && Number.isSafeInteger(count) ? count : undefined;
}

/** Reads a share such as `20%` or `0.5%` as a ratio in 0–1; undefined for anything else. */
export function parseRatio(text: string): number | undefined {
  const [, digits = ""] = /^(\d+(?:\.\d+)?)%$/.exec(text) ?? [];
  const ratio = Number(`${digits}e-2`);
  return digits !== "" && ratio <= 1 ? ratio : undefined;
}

/** Reads a date such as `2027-06-30` as the instant at which that day begins in UTC. */
export function parseDateAtMs(text: string): number | undefined {
  const [, yearText, monthText, dayText] = /^(\d{4})-(\d{2})-(\d{2})$/.exec(text) ?? [];
  const year = Number(yearText);
  const month = Number(monthText);
  const day = Number(dayText);
  if (!(month >= 1 && month <= 12 && day >= 1 && day <= daysInMonth(year, month))) return undefined;
  return daysSinceEpoch(year, month, day) * MS_PER_DAY;
}

function daysInMonth(year: number, month: number): number {
  if (month !== 2) return [4, 6, 9, 11].includes(month) ? 30 : 31;
  const isLeap = year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0);
  return isLeap ? 29 : 28;
}

/**
 * Counts days of the Gregorian calendar from 1970-01-01. Years begin in March here, so that the leap
 * day comes last and a month's first day is a linear function of the month.
 */
export function daysSinceEpoch(year: number, month: number, day: number): number {
  const marchYear = month > 2 ? year : year - 1;
  const monthsSinceMarch = (month + 9) % 12;
  const dayOfYear = Math.floor((153 * monthsSinceMarch + 2) / 5) + day - 1;
  const leapDays =
    Math.floor(marchYear / 4) - Math.floor(marchYear / 100) + Math.floor(marchYear / 400);
  const DAYS_BEFORE_EPOCH = 719_468;
  return marchYear * 365 + leapDays + dayOfYear - DAYS_BEFORE_EPOCH;
}
