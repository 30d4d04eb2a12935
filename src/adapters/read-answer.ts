import type * as z from "zod";
import type { ProbeAnswer } from "./engine-adapter.ts";
import type { MetricsText } from "./metrics-text.ts";
import { parseMetricsText } from "./metrics-text.ts";

const NO_METRICS: MetricsText = new Map();

/** The metrics of an answer; none where there is no answer of status 200. */
export function metricsOf(answer: ProbeAnswer): MetricsText {
  return answer?.status === 200 ? parseMetricsText(answer.text) : NO_METRICS;
}

/** An answer's JSON, of a shape; `undefined` for any other answer. */
export function jsonOf<Shape extends z.ZodType>(
  answer: ProbeAnswer,
  shape: Shape,
): z.output<Shape> | undefined {
  if (answer?.status !== 200) return undefined;
  try {
    const parsed = shape.safeParse(JSON.parse(answer.text));
    return parsed.success ? parsed.data : undefined;
  } catch {
    return undefined;
  }
}

/** What a health check's status says; nothing where it has none: then requests show. */
export function readyOf(answer: ProbeAnswer): boolean | undefined {
  if (answer === undefined) return undefined;
  if (answer.status === 200) return true;
  // A path that it does not have, or credentials that it wants, say nothing about its health.
  return answer.status >= 500 ? false : undefined;
}
