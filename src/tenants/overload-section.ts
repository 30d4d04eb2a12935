import * as z from "zod";
import type { OverloadStep } from "./overload-step.ts";
import { ModelId } from "../protocol/ids.ts";
import { ModelName } from "./file-notations.ts";
import { CONFIGURATION_LIMITS } from "./live-configuration.ts";
import { countNotation, isMapping, notation, section } from "./notation.ts";
import { parseRatio, PATTERNS } from "./units.ts";

const { overloadStepsMax, outputTokensMax } = CONFIGURATION_LIMITS;

const STEP =
  "one of { queue: 60% }, { clamp_max_tokens: 256 }, { fallback_model: MODEL } and reject";
const STEPS = `a list of 1 to ${overloadStepsMax} steps, each ${STEP}`;

/** One step of a ladder, but for `reject`, which is a word. */
export const OverloadStepSection = section({
  queue: notation("a share of the time to the target such as 60%, or 0", parseQueueRatio, {
    anyOf: [{ const: 0 }, { type: "string", pattern: PATTERNS.ratio }],
  }).exactOptional(),
  clamp_max_tokens: countNotation("tokens", { min: 1, max: outputTokensMax }).exactOptional(),
  fallback_model: ModelName.exactOptional(),
});

/** What happens to a request that no replica can serve in time, from first to last. */
export const OverloadSection = z
  .array(z.unknown().transform(toStep).meta(editorOfStep()), STEPS)
  .min(1, STEPS)
  .max(overloadStepsMax, STEPS);

function toStep(found: unknown, context: z.core.ParsePayload): OverloadStep {
  if (found === "reject") return { kind: "reject" };
  const mapping = isMapping(found) ? found : {};
  const step = OverloadStepSection.safeParse(mapping, { reportInput: true });
  for (const issue of step.error?.issues ?? []) {
    const { path, message, input } = issue;
    if (issue.code === "unrecognized_keys") {
      context.issues.push({ code: issue.code, keys: issue.keys, path, input: mapping });
    } else {
      context.issues.push({ code: "custom", message, path, input });
    }
  }
  if (!step.success) return z.NEVER;
  const { queue, clamp_max_tokens: outputTokens, fallback_model: modelId } = step.data;
  const steps: OverloadStep[] = [
    ...(queue === undefined ? [] : [{ kind: "queue", ratio: queue } as const]),
    ...(outputTokens === undefined
      ? []
      : [{ kind: "clamp", outputTokensMax: outputTokens } as const]),
    ...(modelId === undefined
      ? []
      : [{ kind: "fallback", modelId: ModelId.parse(modelId) } as const]),
  ];
  const [only, ...others] = steps;
  if (only !== undefined && others.length === 0) return only;
  context.issues.push({ code: "custom", message: STEP, input: found });
  return z.NEVER;
}

function parseQueueRatio(found: unknown): number | undefined {
  if (found === 0) return 0;
  return typeof found === "string" ? parseRatio(found) : undefined;
}

function editorOfStep() {
  const step = z.toJSONSchema(OverloadStepSection, { io: "input" });
  delete step.$schema;
  const oneKey = { ...step, minProperties: 1, maxProperties: 1 };
  return { description: STEP, anyOf: [{ const: "reject" }, oneKey] };
}
