import { TraceError, shown } from "./trace-error.ts";

/** One row of a trace, its fields read by name and checked; throws a `TraceError` that names the line. */
export class TraceRow {
  readonly lineNumber: number;
  readonly #fields: ReadonlyMap<string, unknown>;

  constructor(lineNumber: number, fields: ReadonlyMap<string, unknown>) {
    this.lineNumber = lineNumber;
    this.#fields = fields;
  }

  /** A whole number of at least `min`. */
  whole(name: string, min = 0): number {
    const value = this.#numeric(name);
    if (Number.isSafeInteger(value) && value >= min) return value;
    throw this.#unexpected(name, `a whole number of at least ${min}`);
  }

  /** A finite number of at least 0. */
  number(name: string): number {
    const value = this.#numeric(name);
    if (Number.isFinite(value) && value >= 0) return value;
    throw this.#unexpected(name, "a number of at least 0");
  }

  text(name: string): string {
    const value = this.#fields.get(name);
    if (typeof value === "string") return value;
    throw this.#unexpected(name, "text");
  }

  /** A list of whole numbers of at least 0. */
  wholes(name: string): readonly number[] {
    const value = this.#fields.get(name);
    if (Array.isArray(value) && value.every(isWhole)) return value;
    throw this.#unexpected(name, "a list of whole numbers");
  }

  /** CSV has only text; an empty field is no number. */
  #numeric(name: string): number {
    const value = this.#fields.get(name);
    if (typeof value === "number") return value;
    return typeof value === "string" && value.trim() !== "" ? Number(value) : NaN;
  }

  #unexpected(name: string, expected: string): TraceError {
    return new TraceError(this.lineNumber, `${expected} as ${name}`, shown(this.#fields.get(name)));
  }
}

function isWhole(value: unknown): value is number {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0;
}

/**
 * Yields the rows of a CSV whose first line names at least `columns`, in any order.
 *
 * None of the formats quotes fields, so neither do we: a quote is an error rather than a wrong field.
 */
export function* csvRows(lines: Iterable<string>, columns: readonly string[]): Generator<TraceRow> {
  let header: readonly string[] | undefined;
  let lineNumber = 0;
  for (const line of lines) {
    lineNumber += 1;
    if (line.includes('"')) throw new TraceError(lineNumber, "fields without quotes", shown(line));
    if (line.trim() === "") continue;
    const fields = line.split(",");
    if (header === undefined) {
      const missing = columns.find((column) => !fields.includes(column));
      if (missing !== undefined) {
        throw new TraceError(lineNumber, `a header with ${missing}`, shown(line));
      }
      header = fields;
      continue;
    }
    if (fields.length !== header.length) {
      throw new TraceError(lineNumber, `${header.length} fields`, `${fields.length}`);
    }
    yield new TraceRow(lineNumber, new Map(header.map((name, index) => [name, fields[index]])));
  }
  if (header === undefined) throw new TraceError(1, "a header", "an empty file");
}

/** Yields the rows of a file that has one JSON object on each line. */
export function* jsonRows(lines: Iterable<string>): Generator<TraceRow> {
  let lineNumber = 0;
  for (const line of lines) {
    lineNumber += 1;
    if (line.trim() === "") continue;
    yield new TraceRow(lineNumber, new Map(Object.entries(objectOf(line, lineNumber))));
  }
}

function objectOf(line: string, lineNumber: number): object {
  try {
    const value: unknown = JSON.parse(line);
    if (typeof value === "object" && value !== null) return value;
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
  }
  throw new TraceError(lineNumber, "a JSON object", shown(line));
}
