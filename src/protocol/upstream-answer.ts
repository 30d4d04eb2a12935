import * as z from "zod";
import { AnswerProgress, PROGRESS_MEMBER } from "./continuation.ts";
import { ANSWER_CHOICES_MAX } from "./generation-parameters.ts";

const Count = z.int().min(0);

/** The counts of an answer as any OpenAI-compatible server gives them. */
export const UpstreamUsage = z.object({
  prompt_tokens: Count,
  completion_tokens: Count,
  prompt_tokens_details: z.nullish(z.object({ cached_tokens: z.nullish(Count) })),
  completion_tokens_details: z
    .nullish(z.object({ reasoning_tokens: z.nullish(Count) }))
    .catch(undefined),
});
export type UpstreamUsage = z.infer<typeof UpstreamUsage>;

// Counts that cannot be read are counts that are missing; the answer itself may be fine.
const Usage = z.nullish(UpstreamUsage).catch(undefined);

// What nobody can make sense of cannot be gone on with either; the answer itself may be fine.
const Progress = z.nullish(AnswerProgress).catch(undefined);

/** What the gateway reads of one chunk of a streamed answer. All else is passed on as text. */
export const UpstreamChunk = z.object({
  id: z.nullish(z.string()).catch(undefined),
  created: z.nullish(z.number()).catch(undefined),
  [PROGRESS_MEMBER]: Progress,
  choices: z
    .array(
      z.object({
        index: z.int().min(0).lt(ANSWER_CHOICES_MAX),
        /** Of a chat, and of a completion. */
        delta: z.nullish(z.record(z.string(), z.unknown())),
        text: z.nullish(z.string()),
        finish_reason: z.nullish(z.string()),
      }),
    )
    .max(ANSWER_CHOICES_MAX),
  usage: Usage,
});
export type UpstreamChunk = z.infer<typeof UpstreamChunk>;

/** What the gateway reads of a chat or a completion that comes whole. */
export const UpstreamCompletion = z.object({
  choices: z
    .array(z.object({ finish_reason: z.nullish(z.string()) }))
    .min(1)
    .max(ANSWER_CHOICES_MAX),
  usage: Usage,
});

/** What the gateway reads of an answer of vectors. There is no output to count. */
export const UpstreamEmbeddings = z.object({
  data: z.array(z.unknown()).min(1),
  usage: z
    .nullish(z.object({ prompt_tokens: Count }))
    .catch(undefined)
    .transform((usage): UpstreamUsage | undefined =>
      usage ? { prompt_tokens: usage.prompt_tokens, completion_tokens: 0 } : undefined,
    ),
});

/** An error that is the whole body. */
export const UpstreamFlatError = z.object({
  object: z.literal("error"),
  message: z.string(),
  code: z.optional(z.unknown()),
  param: z.optional(z.unknown()),
});

/** A refusal in the words of FastAPI, which Triton's frontend and proxies of engines have. */
export const UpstreamDetail = z.object({ detail: z.string() });

/** An error object, under whatever status it came. Some servers write a bare string. */
export const UpstreamErrorBody = z.object({
  error: z.union([
    z.string(),
    z.object({
      message: z.string().catch(""),
      code: z.optional(z.unknown()),
      param: z.optional(z.unknown()),
    }),
  ]),
});
export type UpstreamErrorBody = z.infer<typeof UpstreamErrorBody>;

/**
 * Whether a choice ended because its server failed. Such an answer is cut, and a client that sees
 * these reasons before a clean end takes it for a whole one.
 */
export function isFailedFinish(finishReason: string | null | undefined): boolean {
  return finishReason === "error" || finishReason === "abort";
}

/**
 * Whether a choice's part brings output: anything but a role that is not empty. A role alone, or an
 * empty text, comes before the first token exists.
 */
export function carriesOutput({ delta, text }: UpstreamChunk["choices"][number]): boolean {
  if (!isEmpty(text)) return true;
  return Object.entries(delta ?? {}).some(([name, value]) => name !== "role" && !isEmpty(value));
}

function isEmpty(value: unknown): boolean {
  if (Array.isArray(value)) return value.length === 0;
  return value === null || value === undefined || value === "";
}
