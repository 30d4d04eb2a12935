import { type Problem, toErrorEnvelope } from "../../src/protocol/errors.ts";
import { encodeSseFrame } from "../../src/protocol/sse.ts";
import type { AnswerTotals } from "../../src/protocol/usage.ts";
import { type BrokenPart, isBroken } from "./answer.ts";
import type { AnswerFormat } from "./answer-format.ts";
import type { AnswerGroup, ChoicePart } from "./answer-group.ts";

export interface AnswerStreamOptions {
  readonly answers: AnswerGroup;
  /** What was read of the answers already; undefined if nothing has come yet. */
  readonly firstPart: ChoicePart | undefined;
  readonly format: AnswerFormat;
  /** Returns what the last chunk says; undefined if the client did not ask for one. */
  readonly totals: () => AnswerTotals | undefined;
  /** Called once if the answer cannot be completed. */
  readonly problemOf: (part: BrokenPart) => Problem;
}

/** A silent stream looks like a dead one to the proxies in between. */
const KEEP_ALIVE_MS = 1000;
const KEEP_ALIVE = ": keep-alive\n\n";
const DONE = encodeSseFrame({ data: "[DONE]" });

/**
 * Writes answers as server-sent events, one part whenever the client can take it: what it does
 * not read stays in `answers`, merged. The end is `[DONE]` or one error event, never both and never
 * neither.
 */
export function answerStream(options: AnswerStreamOptions): ReadableStream<Uint8Array> {
  const { answers, format } = options;
  const encoder = new TextEncoder();
  let readAhead = options.firstPart;
  let isAbandoned = false;

  const end = (): string => {
    const totals = options.totals();
    return (totals === undefined ? "" : chunkFrame(format.totalsChunk(totals))) + DONE;
  };

  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const read = readAhead ?? (await answers.next(KEEP_ALIVE_MS));
        readAhead = undefined;
        if (isAbandoned) return;
        if (read === undefined) {
          controller.enqueue(encoder.encode(KEEP_ALIVE));
        } else if (isBroken(read.part)) {
          controller.enqueue(encoder.encode(errorFrame(options.problemOf(read.part))));
          controller.close();
        } else {
          const frames = format.chunksOf(read.choice, read.part).map(chunkFrame).join("");
          const isLast = answers.endings !== undefined;
          // A part without a chunk of its own still has to be a turn of the stream.
          const text = isLast ? frames + end() : frames || KEEP_ALIVE;
          controller.enqueue(encoder.encode(text));
          if (isLast) controller.close();
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

function chunkFrame(chunk: object): string {
  return encodeSseFrame({ data: JSON.stringify(chunk) });
}

function errorFrame(problem: Problem): string {
  return encodeSseFrame({ event: "error", data: JSON.stringify(toErrorEnvelope(problem)) });
}
