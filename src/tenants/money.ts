/**
 * An amount of whatever currency the prices of a configuration are in, in millionths of a millionth of
 * it. A price for a million tokens may have six decimals, and then a single token still costs a whole
 * number of these, so nothing is ever rounded. A number could hold 9,007 of the currency; a big integer
 * holds any sum.
 */
export type Picos = bigint;

const PICOS_PER_MICRO = 1_000_000n;
const PICO_DIGITS = 12;
const MICRO_DIGITS = 6;

/**
 * Reads an amount such as `250` or `0.15`, with at most six decimals, in millionths; undefined for
 * anything else. A number of YAML is read by its shortest decimal text, which is how it was written.
 */
export function parseMicros(found: unknown): number | undefined {
  const text = typeof found === "number" ? String(found) : found;
  if (typeof text !== "string") return undefined;
  const [, digits = "", decimals = ""] = /^(\d+)(?:\.(\d{1,6}))?$/.exec(text) ?? [];
  const micros = Number(digits + decimals.padEnd(MICRO_DIGITS, "0"));
  return digits !== "" && Number.isSafeInteger(micros) ? micros : undefined;
}

/** Millionths as the unit in which is summed. */
export function picosOfMicros(micros: number): Picos {
  return BigInt(micros) * PICOS_PER_MICRO;
}

/** The fewest millionths that cover an amount. */
export function microsCeilOf(picos: Picos): number {
  return Number((picos + PICOS_PER_MICRO - 1n) / PICOS_PER_MICRO);
}

/** Writes an amount as a decimal, exactly: `0.000012`. */
export function amountText(picos: Picos): string {
  const sign = picos < 0n ? "-" : "";
  const digits = String(picos < 0n ? -picos : picos).padStart(PICO_DIGITS + 1, "0");
  const decimals = digits.slice(-PICO_DIGITS).replace(/0+$/, "");
  return `${sign}${digits.slice(0, -PICO_DIGITS)}${decimals === "" ? "" : `.${decimals}`}`;
}
