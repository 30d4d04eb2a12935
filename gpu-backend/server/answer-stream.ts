import type { ChatChunks, ChatCompletionChunk, Usage } from "../../src/protocol/chat-response.ts";
import { type Problem, toErrorEnvelope } from "../../src/protocol/errors.ts";
import { encodeSseFrame } from "../../src/protocol/sse.ts";
import type { Answer, AnswerPart, BrokenPart, FinishedPart } from "./answer.ts";

export interface AnswerStreamOptions {
  readonly answer: Answer;
  /** What was read of the answer already; undefined if nothing has come yet. */
  readonly firstPart: AnswerPart | undefined;
  readonly chunks: ChatChunks;
  /** Returns what the usage chunk says; undefined if the client did not ask for one. */
  readonly usageOf: (part: FinishedPart) => Usage | undefined;
  readonly problemOf: (part: BrokenPart) => Problem;
}

/** A silent stream looks like a dead one to the proxies in between. */
const KEEP_ALIVE_MS = 1000;
const KEEP_ALIVE = ": keep-alive\n\n";
const DONE = encodeSseFrame({ data: "[DONE]" });

/**
 * Writes an answer as server-sent events, one part whenever the client can take it: what it does
 * not read stays in `answer`, merged. The end is `[DONE]` or one error event, never both and never
 * neither.
 */
export function answerStream(options: AnswerStreamOptions): ReadableStream<Uint8Array> {
  const { answer, chunks } = options;
  const encoder = new TextEncoder();
  let readAhead = options.firstPart;
  let hasRole = false;
  let isAbandoned = false;

  const textFrame = (content: string): string => {
    const delta = hasRole ? { content } : { role: "assistant" as const, content };
    hasRole = true;
    return chunkFrame(chunks.delta(delta));
  };
  const lastFrames = (part: FinishedPart | BrokenPart): string => {
    if (part.kind !== "finished") return errorFrame(options.problemOf(part));
    const usage = options.usageOf(part);
    const usageFrame = usage === undefined ? "" : chunkFrame(chunks.usage(usage));
    return chunkFrame(chunks.finish(part.reason)) + usageFrame + DONE;
  };

  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const part = readAhead ?? (await answer.next(KEEP_ALIVE_MS));
        readAhead = undefined;
        if (isAbandoned) return;
        if (part === undefined) controller.enqueue(encoder.encode(KEEP_ALIVE));
        else if (part.kind === "text") controller.enqueue(encoder.encode(textFrame(part.text)));
        else {
          controller.enqueue(encoder.encode(lastFrames(part)));
          controller.close();
        }
      },
      cancel() {
        isAbandoned = true;
      },
    },
    // Nothing leaves the answer before the client can have it.
    { highWaterMark: 0 },
  );
}

function chunkFrame(chunk: ChatCompletionChunk): string {
  return encodeSseFrame({ data: JSON.stringify(chunk) });
}

function errorFrame(problem: Problem): string {
  return encodeSseFrame({ event: "error", data: JSON.stringify(toErrorEnvelope(problem)) });
}
