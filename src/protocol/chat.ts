import * as z from "zod";
import { ModelId } from "./ids.ts";
import { decimalWithin, integerWithin, onlyNeutral, optional } from "./parameter-schemas.ts";
import { faultOf } from "./validation.ts";

/** Bounds the work of one request's template and of its validation. */
export const MESSAGES_MAX = 4096;
const PARTS_MAX = 4096;
const TOOL_CALLS_MAX = 128;
const STOP_STRINGS_MAX = 4;
/** A partial match of a stop string is text that a stream must hold back. */
const STOP_CHARACTERS_MAX = 1024;

const INT64_MIN = -(2 ** 63);
const INT64_MAX = 2 ** 63;

const TextPart = z.object({
  type: z
    .string()
    .refine((type) => type === "text", faultOf("unsupported_value", '"text"', { isEchoed: true })),
  text: z.string(),
});

/** A message's text: text parts count as one string. */
const Content = z.union([
  z.string(),
  z
    .array(TextPart)
    .min(1)
    .max(PARTS_MAX)
    .transform((parts) => parts.map((part) => part.text).join("")),
]);

const Name = optional(z.string());

const ToolCall = z.object({
  id: z.string(),
  type: z.literal("function"),
  function: z.object({ name: z.string(), arguments: z.string() }),
});

const AssistantMessage = z
  .object({
    role: z.literal("assistant"),
    content: optional(Content),
    name: Name,
    refusal: optional(z.string()),
    tool_calls: optional(z.array(ToolCall).max(TOOL_CALLS_MAX)),
  })
  .refine(
    ({ content, refusal, tool_calls: calls }) =>
      content !== undefined || refusal !== undefined || (calls !== undefined && calls.length > 0),
    { ...faultOf("missing_required_parameter", "a string or a list"), path: ["content"] },
  );

/** One turn of a conversation. Only an assistant that called tools may have said nothing. */
export const ChatMessage = z.discriminatedUnion("role", [
  z.object({ role: z.enum(["system", "developer", "user"]), content: Content, name: Name }),
  AssistantMessage,
  z.object({ role: z.literal("tool"), content: Content, tool_call_id: z.string() }),
]);
export type ChatMessage = z.infer<typeof ChatMessage>;

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

const OutputTokensMax = optional(integerWithin(1));

const STREAM_OPTIONS_NEED_STREAM = {
  ...faultOf("invalid_value", "absent unless 'stream' is true"),
  path: ["stream_options"],
};

/**
 * A chat completion as the engine takes it, defaults filled in. `temperature` 0 and `top_p` 0 are
 * greedy; `top_k` 0 keeps all tokens.
 */
export const ChatRequest = z
  .object({
    model: ModelId,
    messages: z.array(ChatMessage).min(1).max(MESSAGES_MAX),
    max_completion_tokens: OutputTokensMax,
    max_tokens: OutputTokensMax,
    temperature: optional(decimalWithin(0, 2)).transform((value) => value ?? 1),
    top_p: optional(decimalWithin(0, 1)).transform((value) => value ?? 1),
    // Clients of vLLM also write -1 for "all tokens".
    top_k: optional(integerWithin(-1)).transform((value) => Math.max(value ?? 0, 0)),
    seed: optional(Seed),
    stop: optional(
      z.union([
        StopString.transform((stop) => [stop]),
        z.array(StopString).min(1).max(STOP_STRINGS_MAX),
      ]),
    ).transform((stops) => stops ?? []),
    stream: optional(z.boolean()).transform((value) => value ?? false),
    stream_options: optional(
      z.object({
        include_usage: optional(z.boolean()),
        // Padding against eavesdroppers: to pass over the wish in silence would be worse than to refuse.
        include_obfuscation: onlyNeutral(z.boolean(), (wanted) => !wanted, "false"),
      }),
    ),
  })
  .refine(
    (request) => request.stream || request.stream_options === undefined,
    STREAM_OPTIONS_NEED_STREAM,
  );
export type ChatRequest = z.infer<typeof ChatRequest>;

/**
 * What the edge reads of a chat request. All else passes untouched, because what an engine can do
 * is the engine's to say.
 */
export const ChatRequestShape = z
  .looseObject({
    model: ModelId,
    messages: z
      .array(
        z.looseObject({
          role: z.string(),
          content: optional(
            z.union([z.string(), z.array(z.looseObject({ type: z.string() })).max(PARTS_MAX)]),
          ),
        }),
      )
      .min(1)
      .max(MESSAGES_MAX),
    max_completion_tokens: OutputTokensMax,
    max_tokens: OutputTokensMax,
    stream: optional(z.boolean()),
    stream_options: optional(z.looseObject({ include_usage: optional(z.boolean()) })),
  })
  .refine(
    (request) => request.stream === true || request.stream_options === undefined,
    STREAM_OPTIONS_NEED_STREAM,
  );
export type ChatRequestShape = z.infer<typeof ChatRequestShape>;

/** The client's own limit of the output, in tokens: the newer of the two parameters wins. */
export function requestedOutputTokensMax(request: {
  readonly max_completion_tokens?: number | undefined;
  readonly max_tokens?: number | undefined;
}): number | undefined {
  return request.max_completion_tokens ?? request.max_tokens;
}

/** The text that a message brings to the prompt; parts that are no text bring none. */
export function messageText(message: ChatRequestShape["messages"][number]): string {
  const { content } = message;
  if (content === undefined) return "";
  if (typeof content === "string") return content;
  return content.map((part) => (typeof part["text"] === "string" ? part["text"] : "")).join("");
}
