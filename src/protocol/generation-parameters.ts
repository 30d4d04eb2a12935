import * as z from "zod";
import { Continuation } from "./continuation.ts";
import {
  decimalWithin,
  integerWithin,
  onlyNeutral,
  optional,
  withDefault,
} from "./parameter-schemas.ts";
import { CACHE_PARAMETERS } from "./request-caching.ts";
import { faultOf } from "./validation.ts";

/** Answers to one prompt; each of them runs as a request of its own. */
const CHOICES_MAX = 16;
const STOP_STRINGS_MAX = 4;
/** A partial match of a stop string is text that a stream must hold back. */
const STOP_CHARACTERS_MAX = 1024;
const STOP_TOKENS_MAX = 128;
const BIASED_TOKENS_MAX = 4096;
const BIAS_MAX = 100;
const TOKEN_DIGITS = /^\d{1,9}$/;
const PRIORITY_MAX = 2 ** 31 - 1;
const CACHE_SALT_CHARACTERS_MAX = 1024;
/** Beyond it a logit is no longer punished but its sign all that counts. */
const REPETITION_PENALTY_MAX = 10;

const INT64_MIN = -(2 ** 63);
const INT64_MAX = 2 ** 63;

/** Ill-formed text never occurs in an answer, and half a character would cut one in two. */
const StopString = z
  .string()
  .min(1)
  .max(STOP_CHARACTERS_MAX)
  .refine((stop) => stop.isWellFormed(), faultOf("invalid_value", "well-formed Unicode"));

/** Past 2^53 JSON has rounded the seed already; that is the same for every equal request. */
const Seed = z
  .number()
  .refine(Number.isInteger, { ...faultOf("invalid_type", "an integer"), abort: true })
  .refine((seed) => seed >= INT64_MIN, faultOf("integer_below_min_value", "at least -2^63"))
  .refine((seed) => seed <= INT64_MAX, faultOf("integer_above_max_value", "below 2^63"));

/** Token ids to what is added to their logits. Whether there are such tokens, the model knows. */
const LogitBias = z.record(z.string(), z.unknown()).transform((biases, context) => {
  const entries = Object.entries(biases);
  const pairs: (readonly [tokenId: number, bias: number])[] = [];
  for (const [key, bias] of entries.slice(0, BIASED_TOKENS_MAX + 1)) {
    if (!TOKEN_DIGITS.test(key)) {
      context.addIssue(issueOf("invalid_value", "named by a token id", [key]));
    } else if (typeof bias !== "number" || Math.abs(bias) > BIAS_MAX) {
      const code = typeof bias === "number" ? rangeCode(bias) : "invalid_type";
      context.addIssue(issueOf(code, `a number from -${BIAS_MAX} to ${BIAS_MAX}`, [key]));
    } else {
      pairs.push([Number(key), bias]);
      continue;
    }
    return z.NEVER;
  }
  if (pairs.length <= BIASED_TOKENS_MAX) return pairs;
  context.addIssue(issueOf("invalid_value", `an object of at most ${BIASED_TOKENS_MAX} pairs`, []));
  return z.NEVER;
});

function rangeCode(bias: number) {
  return bias > 0 ? "decimal_above_max_value" : "decimal_below_min_value";
}

function issueOf(code: Parameters<typeof faultOf>[0], expected: string, path: string[]) {
  const { error: message, params } = faultOf(code, expected);
  return { code: "custom" as const, message, params, path };
}

/** The client's own namespace of cached prompts. */
export const CacheSalt = optional(z.string().max(CACHE_SALT_CHARACTERS_MAX));

/**
 * What chats and completions have in common, defaults filled in. `temperature` 0 and `top_p` 0 are
 * greedy; `top_k` 0 keeps all tokens; `priority` is more urgent the lower it is.
 */
export const GENERATION_PARAMETERS = {
  n: withDefault(integerWithin(1, CHOICES_MAX), 1),
  temperature: withDefault(decimalWithin(0, 2), 1),
  top_p: withDefault(decimalWithin(0, 1), 1),
  // Clients of vLLM also write -1 for "all tokens".
  top_k: optional(integerWithin(-1)).transform((value) => Math.max(value ?? 0, 0)),
  min_p: withDefault(decimalWithin(0, 1), 0),
  seed: optional(Seed),
  frequency_penalty: withDefault(decimalWithin(-2, 2), 0),
  presence_penalty: withDefault(decimalWithin(-2, 2), 0),
  repetition_penalty: withDefault(
    decimalWithin(0, REPETITION_PENALTY_MAX).refine(
      (penalty) => penalty > 0,
      faultOf("decimal_below_min_value", "above 0"),
    ),
    1,
  ),
  logit_bias: withDefault(LogitBias, []),
  stop: optional(
    z.union([
      StopString.transform((stop) => [stop]),
      z.array(StopString).min(1).max(STOP_STRINGS_MAX),
    ]),
  ).transform((stops) => stops ?? []),
  stop_token_ids: withDefault(z.array(integerWithin(0)).max(STOP_TOKENS_MAX), []),
  include_stop_str_in_output: withDefault(z.boolean(), false),
  ignore_eos: withDefault(z.boolean(), false),
  min_tokens: withDefault(integerWithin(0), 0),
  stream: withDefault(z.boolean(), false),
  stream_options: optional(
    z.object({
      include_usage: optional(z.boolean()),
      // Padding against eavesdroppers: to pass over the wish in silence would be worse than to refuse.
      include_obfuscation: onlyNeutral(z.boolean(), (wanted) => !wanted, "false"),
    }),
  ),
  priority: withDefault(integerWithin(-PRIORITY_MAX, PRIORITY_MAX), 0),
  cache_salt: CacheSalt,
  sluice_continuation: optional(Continuation),
};

/** Choices of one answer, over all its prompts: as many as are told apart in a stream. */
export const ANSWER_CHOICES_MAX = 128;

/** How urgent a request is, in the API's words. */
export const ServiceTier = z.enum(["auto", "default", "flex", "scale", "priority", "fast"]);

/** What the edge reads of chats and completions alike. All else is the engine's to judge. */
export const EDGE_PARAMETERS = {
  n: optional(integerWithin(1, CHOICES_MAX)),
  stream: optional(z.boolean()),
  service_tier: optional(ServiceTier),
  stream_options: optional(z.looseObject({ include_usage: optional(z.boolean()) })),
  cache_salt: CacheSalt,
  ...CACHE_PARAMETERS,
};

const Generation = z.object(GENERATION_PARAMETERS);
/** The parameters that every generation has, as a request's schema yields them. */
export type GenerationParameters = z.infer<typeof Generation>;

/** The fault of options for a stream in a request for none. */
export const STREAM_OPTIONS_NEED_STREAM = {
  ...faultOf("invalid_value", "absent unless 'stream' is true"),
  path: ["stream_options"],
};

/** Whether a request has options for a stream only if it wants one. */
export function hasStreamForOptions(request: {
  readonly stream?: boolean | undefined;
  readonly stream_options?: object | undefined;
}): boolean {
  return request.stream === true || request.stream_options === undefined;
}

/** The fault of a minimum of output above its maximum. */
export const MINIMUM_ABOVE_MAXIMUM = {
  ...faultOf("integer_above_max_value", "at most the maximum of output tokens"),
  path: ["min_tokens"],
};
