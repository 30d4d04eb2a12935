import type { Problem } from "../protocol/errors.ts";
import type { SseFrame } from "../protocol/sse.ts";
import { isFailedFinish, UpstreamChunk } from "../protocol/upstream-answer.ts";
import { problemInAnswer } from "../protocol/upstream-problem.ts";

/** One event of a replica's stream: a chunk of its answer, or that there will be none. */
export type ReadChunk =
  | { readonly kind: "chunk"; readonly chunk: UpstreamChunk }
  | { readonly kind: "failed"; readonly problem: Problem | undefined };

/** Reads an event that is neither empty nor the end marker. */
export function readChunk({ data, event }: SseFrame): ReadChunk {
  const body = parseJson(data);
  const problem = problemInAnswer(body);
  if (problem !== undefined) return { kind: "failed", problem };
  const { data: chunk } = UpstreamChunk.safeParse(body);
  const isOne =
    event !== "error" && !chunk?.choices.some((choice) => isFailedFinish(choice.finish_reason));
  return isOne && chunk !== undefined
    ? { kind: "chunk", chunk }
    : { kind: "failed", problem: undefined };
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
