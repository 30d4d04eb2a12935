import type * as z from "zod";
import { ChatRequest, ChatRequestShape, messageText, requestedOutputTokensMax } from "./chat.ts";
import { CompletionRequest, CompletionRequestShape } from "./completion.ts";
import { EmbeddingsRequest, EmbeddingsRequestShape } from "./embeddings.ts";
import type { ServiceTier } from "./generation-parameters.ts";
import type { ModelId } from "./ids.ts";
import { InertChatParameters, InertCompletionParameters } from "./inert-parameters.ts";
import { chatParts, hasCacheMarks, textParts } from "./prompt-parts.ts";
import type { RequestCaching } from "./request-caching.ts";
import { cachingOf } from "./request-caching.ts";
import type { TextInput } from "./text-input.ts";
import type { UpstreamUsage } from "./upstream-answer.ts";
import type { RequestSchemas } from "./unknown-parameters.ts";
import { unknownParameters } from "./unknown-parameters.ts";
import { isFailedFinish, UpstreamCompletion, UpstreamEmbeddings } from "./upstream-answer.ts";
import type { Validated } from "./validation.ts";
import { validate } from "./validation.ts";

/** What the gateway understands of a request's body. */
export interface RequestOutline {
  readonly modelId: ModelId;
  /** Of a conversation the text that its messages bring. */
  readonly prompts: readonly TextInput[];
  readonly outputTokensMax: number | undefined;
  /** Over all prompts. */
  readonly choiceCount: number;
  readonly isStreamed: boolean;
  /** As the client wrote them. */
  readonly streamOptions: { readonly include_usage?: boolean | undefined } | undefined;
  readonly caching: RequestCaching;
  readonly serviceTier: z.infer<typeof ServiceTier> | undefined;
  /** Parameters that the API does not have: replicas get them all the same. */
  readonly unknownParameterCount: number;
}

/**
 * One thing that a model can be asked for: where, and how the gateway reads a request for it and an
 * answer that comes whole. Streams of all of them are read alike.
 */
export interface Operation {
  /** As OpenTelemetry names it. */
  readonly name: "chat" | "text_completion" | "embeddings";
  /** Of the gateway and of its replicas. */
  readonly path: string;
  /** Whether its answers say which service tier they had. */
  readonly tellsTier: boolean;
  /** By which a prompt that is too long is told. */
  readonly promptParameter: string;
  /** Reads a request's body. */
  readonly outline: (body: Readonly<Record<string, unknown>>) => Validated<RequestOutline>;
  /** Reads a whole answer; `undefined` where it is none. */
  readonly readAnswer: (body: unknown) => WholeAnswer | undefined;
}

interface WholeAnswer {
  /** Absent when the server did not count. */
  readonly usage: UpstreamUsage | undefined;
}

const CHATS = { request: ChatRequest, inert: InertChatParameters };
const COMPLETIONS = { request: CompletionRequest, inert: InertCompletionParameters };
const INPUTS = { request: EmbeddingsRequest, inert: InertCompletionParameters };

/** The next message of a conversation. */
export const CHAT: Operation = {
  name: "chat",
  path: "/v1/chat/completions",
  tellsTier: true,
  promptParameter: "messages",
  outline: outlineBy(ChatRequestShape, CHATS, (chat) => ({
    ...outlineOfGeneration(chat, 1),
    prompts: [{ kind: "text", text: chat.messages.map(messageText).join("") }],
    outputTokensMax: requestedOutputTokensMax(chat),
    caching: cachingOf(chat, { parts: chatParts(chat), hasMarks: hasCacheMarks(chat) }),
  })),
  readAnswer: readCompletion,
};

/** What follows a text. */
export const TEXT_COMPLETION: Operation = {
  name: "text_completion",
  path: "/v1/completions",
  tellsTier: false,
  promptParameter: "prompt",
  outline: outlineBy(CompletionRequestShape, COMPLETIONS, (completion) => ({
    ...outlineOfGeneration(completion, completion.prompt.length),
    prompts: completion.prompt,
    // Without output there is a first step all the same.
    outputTokensMax: Math.max(1, completion.max_tokens),
    caching: cachingOf(completion, { parts: partsOf(completion.prompt), hasMarks: false }),
  })),
  readAnswer: readCompletion,
};

/** Vectors of texts. One output token stands for the step that makes them. */
export const EMBEDDINGS: Operation = {
  name: "embeddings",
  path: "/v1/embeddings",
  tellsTier: false,
  promptParameter: "input",
  outline: outlineBy(EmbeddingsRequestShape, INPUTS, ({ model, input, cache_salt }) => ({
    modelId: model,
    prompts: input,
    outputTokensMax: 1,
    choiceCount: 1,
    isStreamed: false,
    streamOptions: undefined,
    // Vectors are computed over whole texts: none of their blocks is read.
    caching: cachingOf({ cache_salt }, { parts: [], hasMarks: false }),
    serviceTier: undefined,
  })),
  readAnswer: (body) => {
    const parsed = UpstreamEmbeddings.safeParse(body);
    return parsed.success ? { usage: parsed.data.usage } : undefined;
  },
};

export const OPERATIONS: readonly Operation[] = [CHAT, TEXT_COMPLETION, EMBEDDINGS];

function outlineBy<Schema extends z.ZodType>(
  shape: Schema,
  schemas: RequestSchemas<z.ZodObject>,
  toOutline: (request: z.output<Schema>) => Omit<RequestOutline, "unknownParameterCount">,
): Operation["outline"] {
  return (body) => {
    const request = validate(shape, body);
    if (request.kind !== "valid") return request;
    const unknownParameterCount = unknownParameters(schemas, body).length;
    return { kind: "valid", value: { ...toOutline(request.value), unknownParameterCount } };
  };
}

function outlineOfGeneration(
  request: Pick<ChatRequestShape, "model" | "n" | "stream" | "stream_options" | "service_tier">,
  promptCount: number,
) {
  return {
    modelId: request.model,
    choiceCount: promptCount * (request.n ?? 1),
    isStreamed: request.stream === true,
    streamOptions: request.stream_options,
    serviceTier: request.service_tier,
  };
}

/** Where there are several, a replica is chosen for all of them, and no beginning is theirs. */
function partsOf(prompts: readonly TextInput[]) {
  const [prompt, ...others] = prompts;
  return prompt === undefined || others.length > 0 ? [] : textParts(prompt);
}

/** A chat and a completion that come whole look alike, as far as the gateway reads them. */
function readCompletion(body: unknown): WholeAnswer | undefined {
  const parsed = UpstreamCompletion.safeParse(body);
  if (!parsed.success) return undefined;
  const { choices, usage } = parsed.data;
  if (choices.some((choice) => isFailedFinish(choice.finish_reason))) return undefined;
  return { usage: usage ?? undefined };
}
