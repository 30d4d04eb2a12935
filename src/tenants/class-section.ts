import * as z from "zod";
import { DurationMs } from "./file-notations.ts";
import { mappingOf, section, textNotation } from "./notation.ts";

const PERCENTILE = "a percentile such as p50, p99 or p99.9";
const PERCENTILE_PATTERN = "^p\\d{1,2}(\\.\\d{1,2})?$";
const PercentileRatio = textNotation(PERCENTILE, parsePercentile, { pattern: PERCENTILE_PATTERN });

const ONE_TARGET = "one percentile with its limit, such as { p99: 300ms }";
const Target = mappingOf(PercentileRatio, DurationMs, {
  expected: ONE_TARGET,
  max: 1,
}).transform((limits, context) => {
  const target = toTarget(limits);
  if (target !== undefined) return target;
  context.issues.push({ code: "custom", message: ONE_TARGET, input: limits });
  return z.NEVER;
});

const PER_PROMPT_TOKEN = "per_prompt_token";
const TTFT_TARGET = `${ONE_TARGET}, and ${PER_PROMPT_TOKEN} where the limit grows with the prompt`;
const TtftLimit = textNotation(
  `${PERCENTILE}, or ${PER_PROMPT_TOKEN}`,
  (text) => (text === PER_PROMPT_TOKEN ? text : parsePercentile(text)),
  { pattern: `${PERCENTILE_PATTERN}|^${PER_PROMPT_TOKEN}$` },
);
const TtftTarget = mappingOf(TtftLimit, DurationMs, {
  expected: TTFT_TARGET,
  max: 2,
}).transform((limits, context) => {
  const target = toTarget(new Map([...limits].filter(isPercentile)));
  const perPromptTokenMs = limits.get(PER_PROMPT_TOKEN);
  if (target !== undefined) {
    return { ...target, ...(perPromptTokenMs !== undefined && { perPromptTokenMs }) };
  }
  context.issues.push({ code: "custom", message: TTFT_TARGET, input: limits });
  return z.NEVER;
});

/** One promise by its name: at least one target. */
export const ClassSection = section({
  ttft: TtftTarget.exactOptional(),
  tpot: Target.exactOptional(),
  e2e: Target.exactOptional(),
  tbt_max: DurationMs.exactOptional(),
}).refine(
  (targets) => Object.keys(targets).length > 0,
  "at least one target: ttft, tpot, e2e, tbt_max",
);

function parsePercentile(text: string): number | undefined {
  const [, digits = ""] = /^p(\d{1,2}(?:\.\d{1,2})?)$/.exec(text) ?? [];
  const ratio = Number(`${digits}e-2`);
  return ratio > 0 ? ratio : undefined;
}

function toTarget(limits: ReadonlyMap<number, number>) {
  const [first, ...others] = limits;
  if (first === undefined || others.length > 0) return undefined;
  const [percentileRatio, limitMs] = first;
  return { percentileRatio, limitMs };
}

function isPercentile(entry: [number | string, number]): entry is [number, number] {
  return typeof entry[0] === "number";
}
