import * as z from "zod";
import { decimalWithin, integerWithin, onlyNeutral, optional } from "./parameter-schemas.ts";
import { faultOf } from "./validation.ts";

const METADATA_PAIRS_MAX = 16;
const TOOLS_MAX = 128;
const CHOICES_MAX = 128;
const LIST_MAX = 128;

const AnyObject = z.record(z.string(), z.unknown());

const Metadata = z
  .record(z.string().max(64), z.string().max(512))
  .refine(
    (pairs) => Object.keys(pairs).length <= METADATA_PAIRS_MAX,
    faultOf("invalid_value", `an object of at most ${METADATA_PAIRS_MAX} pairs`),
  );

/** Checked, then without effect on the text: hints, labels and what other engines offer. */
const IGNORED = {
  cache_salt: optional(z.string()),
  metadata: optional(Metadata),
  parallel_tool_calls: optional(z.boolean()),
  prediction: optional(AnyObject),
  priority: optional(z.int()),
  prompt_cache_key: optional(z.string().max(1024)),
  prompt_cache_options: optional(AnyObject),
  prompt_cache_retention: optional(z.enum(["in_memory", "24h"])),
  reasoning_effort: optional(z.enum(["none", "minimal", "low", "medium", "high", "xhigh", "max"])),
  safety_identifier: optional(z.string().max(64)),
  service_tier: optional(z.enum(["auto", "default", "flex", "scale", "priority", "fast"])),
  store: optional(z.boolean()),
  user: optional(z.string()),
  verbosity: optional(z.enum(["low", "medium", "high"])),
  web_search_options: optional(AnyObject),
};

const isFalse = (value: boolean) => !value;
const isZero = (value: number) => value === 0;
const isOne = (value: number) => value === 1;
const isEmpty = (value: object) => Object.keys(value).length === 0;
const never = () => false;

/** Would change the text in a way the engine cannot, so only the neutral value is taken. */
const NEUTRAL_ONLY = {
  audio: onlyNeutral(AnyObject, never, "absent"),
  frequency_penalty: onlyNeutral(decimalWithin(-2, 2), isZero, "0"),
  function_call: onlyNeutral(z.unknown(), never, "absent"),
  functions: onlyNeutral(z.unknown(), never, "absent"),
  ignore_eos: onlyNeutral(z.boolean(), isFalse, "false"),
  include_stop_str_in_output: onlyNeutral(z.boolean(), isFalse, "false"),
  logit_bias: onlyNeutral(AnyObject, isEmpty, "empty"),
  logprobs: onlyNeutral(z.boolean(), isFalse, "false"),
  min_p: onlyNeutral(decimalWithin(0, 1), isZero, "0"),
  min_tokens: onlyNeutral(integerWithin(0), isZero, "0"),
  modalities: onlyNeutral(
    z.array(z.string()).min(1).max(LIST_MAX),
    (modalities) => modalities.every((modality) => modality === "text"),
    '["text"]',
  ),
  n: onlyNeutral(integerWithin(1, CHOICES_MAX), isOne, "1"),
  presence_penalty: onlyNeutral(decimalWithin(-2, 2), isZero, "0"),
  repetition_penalty: onlyNeutral(decimalWithin(0, 10), isOne, "1"),
  response_format: onlyNeutral(
    z.looseObject({ type: z.enum(["text", "json_object", "json_schema"]) }),
    (format) => format.type === "text",
    'of type "text"',
  ),
  stop_token_ids: onlyNeutral(z.array(z.int()).max(LIST_MAX), isEmpty, "empty"),
  tool_choice: onlyNeutral(z.unknown(), never, "absent"),
  tools: onlyNeutral(z.array(z.unknown()).min(1).max(TOOLS_MAX), never, "absent"),
  top_logprobs: onlyNeutral(integerWithin(0, 20), isZero, "0"),
};

/**
 * The parameters of a chat request that are checked but never change the engine's answer, either
 * because they mean nothing to it or because it takes only the value that means nothing.
 */
export const InertParameters = z.object({ ...IGNORED, ...NEUTRAL_ONLY });
