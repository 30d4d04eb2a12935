import { readFileSync } from "node:fs";
import * as z from "zod";
import { CommandFailure, messageOf } from "../command.ts";
import { flagSwitch } from "../flags.ts";
import { toColumns } from "../verbs.ts";
import { compareLoads } from "./compare-loads.ts";
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
  const rows = figures.map(({ tenant, figure, interval, ...of }) => [
    tenant,
    figure,
    numberText(of.a),
    numberText(of.b),
    numberText(of.difference),
    `[${numberText(interval.low)}, ${numberText(interval.high)}]`,
    interval.low > 0 || interval.high < 0 ? "differs" : "",
  ]);
  return [
    ...toColumns([["tenant", "figure", "A", "B", "B-A", "95 %", ""], ...rows]),
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

const numberText = (value: number) => (Number.isFinite(value) ? value.toFixed(2) : "-");
