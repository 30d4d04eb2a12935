import * as z from "zod";
import {
  ANSWER_CHOICES_MAX,
  EDGE_PARAMETERS,
  GENERATION_PARAMETERS,
  hasStreamForOptions,
  MINIMUM_ABOVE_MAXIMUM,
  STREAM_OPTIONS_NEED_STREAM,
} from "./generation-parameters.ts";
import { ModelId } from "./ids.ts";
import { integerWithin, onlyNeutral, optional, withDefault } from "./parameter-schemas.ts";
import { TextInputs, textInputs } from "./text-input.ts";
import { faultOf } from "./validation.ts";

const LOGPROBS_MAX = 5;
const OUTPUT_TOKENS_DEFAULT = 16;

/**
 * A completion of plain text as the engine takes it, defaults filled in. `max_tokens` may be 0 only
 * with `echo`, which then scores the prompt.
 */
export const CompletionRequest = z
  .object({
    model: ModelId,
    prompt: TextInputs,
    max_tokens: withDefault(integerWithin(0), OUTPUT_TOKENS_DEFAULT),
    echo: withDefault(z.boolean(), false),
    logprobs: optional(integerWithin(0, LOGPROBS_MAX)),
    ...GENERATION_PARAMETERS,
    suffix: onlyNeutral(z.string(), (suffix) => suffix === "", "absent"),
    best_of: onlyNeutral(integerWithin(1), (count) => count === 1, "1"),
  })
  .refine(hasStreamForOptions, STREAM_OPTIONS_NEED_STREAM)
  .refine((request) => request.min_tokens <= request.max_tokens, MINIMUM_ABOVE_MAXIMUM)
  .refine((request) => request.max_tokens > 0 || request.echo, {
    ...faultOf("integer_below_min_value", "at least 1 unless 'echo' is true"),
    path: ["max_tokens"],
  });
export type CompletionRequest = z.infer<typeof CompletionRequest>;

/** What the edge reads of a completion. All else passes untouched, as of a chat. */
export const CompletionRequestShape = z
  .object({
    model: ModelId,
    prompt: textInputs(ANSWER_CHOICES_MAX),
    max_tokens: withDefault(integerWithin(0), OUTPUT_TOKENS_DEFAULT),
    ...EDGE_PARAMETERS,
  })
  .refine(hasStreamForOptions, STREAM_OPTIONS_NEED_STREAM)
  .refine(({ prompt, n = 1 }) => prompt.length * n <= ANSWER_CHOICES_MAX, {
    ...faultOf("integer_above_max_value", `so that all prompts have ${ANSWER_CHOICES_MAX} choices`),
    path: ["n"],
  });
export type CompletionRequestShape = z.infer<typeof CompletionRequestShape>;
