import { readFileSync } from "node:fs";
import * as z from "zod";
import { CommandFailure, messageOf } from "../command.ts";
import { flagSwitch } from "../flags.ts";
import { toColumns } from "../verbs.ts";
import type { ComparedFigure } from "./compare-loads.ts";
import { compareLoads, REQUESTS_MIN } from "./compare-loads.ts";
import { LoadResult } from "./load-result.ts";

export const COMPARE_FLAGS = z.object({
  json: flagSwitch("Print the figures as one JSON object"),
});

/** Writes how two results on file differ. Throws a `CommandFailure` where they cannot be compared. */
export function tellComparison(
  { a, b }: { readonly a: string; readonly b: string },
  asJson: boolean,
): string[] {
  const figures = compareLoads(readResult(a), readResult(b));
  if (figures.length === 0) throw new CommandFailure("The two results have no tenant in common");
  if (asJson) return [JSON.stringify({ a, b, figures })];
  const rows = figures.map((compared) => [
    compared.tenant,
    compared.figure,
    numberText(compared.a),
    numberText(compared.b),
    numberText(compared.difference),
    intervalText(compared.interval),
    verdictOn(compared),
  ]);
  return [
    ...toColumns([["tenant", "figure", "A", "B", "B-A", "95 %", ""], ...rows]),
    ...(figures.some(({ isTooFew }) => isTooFew)
      ? [
          `Too few to tell: an interval takes ${REQUESTS_MIN.any} requests of a tenant on each side, ` +
            `that of a p99 ${REQUESTS_MIN.p99}.`,
        ]
      : []),
    "Intervals tell how much a run varies inside itself; repeat runs to learn how runs differ.",
  ];
}

function readResult(file: string): LoadResult {
  let found: unknown;
  try {
    found = JSON.parse(readFileSync(file, "utf8"));
  } catch (error) {
    throw new CommandFailure(`${file}: ${messageOf(error)}`);
  }
  const result = LoadResult.safeParse(found);
  if (result.success) return result.data;
  const [issue] = result.error.issues;
  throw new CommandFailure(
    `${file} is no result of sluice bench: ${issue?.path.join(".") ?? ""}: ${issue?.message ?? ""}`,
  );
}

function intervalText({ low, high }: ComparedFigure["interval"]): string {
  if (Number.isNaN(low) && Number.isNaN(high)) return "-";
  return `[${numberText(low)}, ${numberText(high)}]`;
}

function verdictOn({ isTooFew, interval: { low, high } }: ComparedFigure): string {
  if (isTooFew) return "too few to tell";
  return low > 0 || high < 0 ? "differs" : "";
}

const numberText = (value: number) => (Number.isFinite(value) ? value.toFixed(2) : "-");
