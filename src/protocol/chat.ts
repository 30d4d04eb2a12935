import * as z from "zod";
import {
  EDGE_PARAMETERS,
  GENERATION_PARAMETERS,
  hasStreamForOptions,
  MINIMUM_ABOVE_MAXIMUM,
  STREAM_OPTIONS_NEED_STREAM,
} from "./generation-parameters.ts";
import { ModelId } from "./ids.ts";
import { integerWithin, optional, withDefault } from "./parameter-schemas.ts";
import { ResponseFormat } from "./response-format.ts";
import { faultOfToolChoice, Tool, ToolChoice, TOOLS_MAX } from "./tools.ts";
import { faultOf } from "./validation.ts";

/** Bounds the work of one request's template and of its validation. */
export const MESSAGES_MAX = 4096;
const PARTS_MAX = 4096;
const TOOL_CALLS_MAX = 128;

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

const OutputTokensMax = optional(integerWithin(1));

const TOP_LOGPROBS_MAX = 20;

/** A chat completion as the engine takes it, defaults filled in. */
export const ChatRequest = z
  .object({
    model: ModelId,
    messages: z.array(ChatMessage).min(1).max(MESSAGES_MAX),
    max_completion_tokens: OutputTokensMax,
    max_tokens: OutputTokensMax,
    ...GENERATION_PARAMETERS,
    logprobs: withDefault(z.boolean(), false),
    top_logprobs: withDefault(integerWithin(0, TOP_LOGPROBS_MAX), 0),
    response_format: withDefault(ResponseFormat, { type: "text" }),
    tools: optional(z.array(Tool).min(1).max(TOOLS_MAX)),
    tool_choice: optional(ToolChoice),
    parallel_tool_calls: withDefault(z.boolean(), true),
  })
  .refine(hasStreamForOptions, STREAM_OPTIONS_NEED_STREAM)
  .refine(
    (request) => request.min_tokens <= (requestedOutputTokensMax(request) ?? Infinity),
    MINIMUM_ABOVE_MAXIMUM,
  )
  .refine((request) => request.logprobs || request.top_logprobs === 0, {
    ...faultOf("invalid_value", "absent unless 'logprobs' is true"),
    path: ["top_logprobs"],
  })
  .superRefine((request, context) => {
    const fault = faultOfToolChoice(request);
    if (fault !== undefined) context.addIssue(fault);
  });
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
    ...EDGE_PARAMETERS,
  })
  .refine(hasStreamForOptions, STREAM_OPTIONS_NEED_STREAM);
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
