import { type Problem, toErrorEnvelope } from "../../src/protocol/errors.ts";
import { encodeSseFrame } from "../../src/protocol/sse.ts";
import type { AnswerTotals } from "../../src/protocol/usage.ts";
import { monotonicNowMs } from "../clock.ts";
import { type BrokenPart, isBroken } from "./answer.ts";
import type { AnswerFormat } from "./answer-format.ts";
import type { AnswerGroup, ChoicePart } from "./answer-group.ts";
import type { TokenTelling } from "./token-telling.ts";

export interface AnswerStreamOptions {
  readonly answers: AnswerGroup;
  /** What was read of the answers already; undefined if nothing has come yet. */
  readonly firstPart: ChoicePart | undefined;
  readonly format: AnswerFormat;
  /** Present where the chunks are to say which tokens they are from. */
  readonly telling?: TokenTelling | undefined;
  /** Returns what the last chunk says; undefined if the client did not ask for one. */
  readonly totals: () => AnswerTotals | undefined;
  /** Called once if the answer cannot be completed. */
  readonly problemOf: (part: BrokenPart) => Problem;
}

/** What is written at once; the last one ends the stream. */
interface Frame {
  readonly text: string;
  readonly isLast: boolean;
}

/** A silent stream looks like a dead one to the proxies in between. */
const KEEP_ALIVE_MS = 1000;
const KEEP_ALIVE = ": keep-alive\n\n";
const DONE = encodeSseFrame({ data: "[DONE]" });

/**
 * Writes answers as server-sent events, one part whenever the client can take it: what it does
 * not read stays in `answers`, merged. While there is nothing to be written, be it that tokens are
 * still to come or that theirs is no text yet, a comment says every second that the stream lives. The
 * end is `[DONE]` or one error event, never both and never neither.
 */
export function answerStream(options: AnswerStreamOptions): ReadableStream<Uint8Array> {
  const { answers, format } = options;
  const encoder = new TextEncoder();
  let readAhead = options.firstPart;
  let isAbandoned = false;

  const take = async (silenceMsMax: number): Promise<ChoicePart | undefined> => {
    const part = readAhead ?? (await answers.next(silenceMsMax));
    readAhead = undefined;
    return part;
  };

  const frameOf = ({ choice, part }: ChoicePart): Frame => {
    if (isBroken(part)) return { text: errorFrame(options.problemOf(part)), isLast: true };
    const chunks = format.chunksOf(choice, part);
    const tokenIds = part.kind === "prompt" ? undefined : part.tokenIds;
    const told = options.telling?.tell(chunks, tokenIds) ?? chunks;
    const text = told.map(chunkFrame).join("");
    if (answers.endings === undefined) return { text, isLast: false };
    const totals = options.totals();
    const totalsText = totals === undefined ? "" : chunkFrame(format.totalsChunk(totals));
    return { text: text + totalsText + DONE, isLast: true };
  };

  /** Reads on until there is something to say, or nothing was for too long. */
  const nextFrame = async (): Promise<Frame> => {
    const silentUntilMs = monotonicNowMs() + KEEP_ALIVE_MS;
    for (;;) {
      const silenceMsMax = silentUntilMs - monotonicNowMs();
      const read = silenceMsMax > 0 ? await take(silenceMsMax) : undefined;
      if (read === undefined || isAbandoned) return { text: KEEP_ALIVE, isLast: false };
      // A part may say nothing yet, as the beginning of a tool's call does.
      const frame = frameOf(read);
      if (frame.text !== "") return frame;
    }
  };

  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const { text, isLast } = await nextFrame();
        if (isAbandoned) return;
        controller.enqueue(encoder.encode(text));
        if (isLast) controller.close();
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
