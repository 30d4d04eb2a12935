import type { IntervalShape } from "../workloads/intervals.ts";
import { QUANTILE_LEVELS } from "../workloads/length-table.ts";
import type { LengthTable } from "../workloads/length-table.ts";
import { TraceError, shown } from "./trace-error.ts";
import { csvRows } from "./trace-row.ts";

/** One client's traffic over its whole recording. */
export interface ServeGenClient {
  readonly client: string;
  readonly meanPerSecond: number;
  readonly peakPerSecond: number;
}

/** One client's traffic over the ten minutes from `atMs` on. */
export interface ServeGenWindow {
  readonly client: string;
  readonly atMs: number;
  readonly perSecond: number;
  /** Absent in a window without requests. */
  readonly intervals?: Exclude<IntervalShape, { readonly kind: "poisson" }>;
}

/** Length of a ServeGen window. */
export const SERVEGEN_WINDOW_MS = 600_000;

/** Reads a table of clients: CSV with `client`, `rate_mean` and `rate_max` (requests per second). */
export function* serveGenClients(lines: Iterable<string>): Generator<ServeGenClient> {
  for (const row of csvRows(lines, ["client", "rate_mean", "rate_max"])) {
    yield {
      client: row.text("client"),
      meanPerSecond: row.number("rate_mean"),
      peakPerSecond: row.number("rate_max"),
    };
  }
}

/**
 * Reads ServeGen's `chunk-*-trace.csv` files joined into one: CSV with the file's number as `client`,
 * `t` (s), `rate` (1/s), `cv` and `pattern` (Gamma or Weibull). Source: alibaba/ServeGen, Apache-2.0.
 */
export function* serveGenWindows(lines: Iterable<string>): Generator<ServeGenWindow> {
  for (const row of csvRows(lines, ["client", "t", "rate", "cv", "pattern"])) {
    const window = {
      client: row.text("client"),
      atMs: row.number("t") * 1000,
      perSecond: row.number("rate"),
    };
    const pattern = row.text("pattern");
    if (pattern === "") {
      yield window;
      continue;
    }
    if (pattern !== "Gamma" && pattern !== "Weibull") {
      throw new TraceError(row.lineNumber, "Gamma, Weibull or nothing as pattern", shown(pattern));
    }
    const kind = pattern === "Gamma" ? "gamma" : "weibull";
    yield { ...window, intervals: { kind, cv: row.number("cv") } };
  }
}

/**
 * Reads the lengths of each client: JSON with `quantile_levels`, which must be `QUANTILE_LEVELS`, and
 * `clients`, by number their `input_tokens` and `output_tokens` at these levels. Clients whose prompts
 * were not counted (images) are left out.
 */
export function serveGenLengths(text: string): Map<string, LengthTable> {
  const file: unknown = JSON.parse(text);
  const levels = fieldOf(file, "quantile_levels");
  if (!isNumbers(levels) || QUANTILE_LEVELS.some((level, index) => levels[index] !== level)) {
    throw new TraceError(1, `quantile_levels ${QUANTILE_LEVELS.join(", ")}`, shown(levels));
  }
  const clients = fieldOf(file, "clients");
  if (typeof clients !== "object" || clients === null) {
    throw new TraceError(1, "an object as clients", shown(clients));
  }
  const tables = new Map<string, LengthTable>();
  for (const [client, lengths] of Object.entries(clients)) {
    const promptTokens = fieldOf(lengths, "input_tokens");
    if (promptTokens === undefined) continue;
    const outputTokens = fieldOf(lengths, "output_tokens");
    tables.set(client, {
      promptTokens: quantilesOf(promptTokens, `input_tokens of client ${client}`),
      outputTokensByPrompt: [quantilesOf(outputTokens, `output_tokens of client ${client}`)],
    });
  }
  return tables;
}

function quantilesOf(value: unknown, what: string): readonly number[] {
  const isRising =
    isNumbers(value) && value.every((quantile, index) => quantile >= (value[index - 1] ?? 0));
  if (isRising && value.length === QUANTILE_LEVELS.length) return value;
  throw new TraceError(1, `${QUANTILE_LEVELS.length} rising numbers as ${what}`, shown(value));
}

function fieldOf(value: unknown, name: string): unknown {
  if (typeof value !== "object" || value === null) return undefined;
  return new Map<string, unknown>(Object.entries(value)).get(name);
}

function isNumbers(value: unknown): value is readonly number[] {
  return Array.isArray(value) && value.every((entry) => typeof entry === "number");
}
