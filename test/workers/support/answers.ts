import type { UpstreamStep } from "../../support/upstream-script.ts";
import { chunkFrame, EVENT_STREAM_HEAD } from "./upstream.ts";

/** The role chunk that an engine sends just before the first token. */
export const ROLE_FRAME = chunkFrame({ delta: { role: "assistant", content: "" } });

export const FINISH_FRAME = chunkFrame({ finish_reason: "stop" });

/** A chunk with one token in it. */
export function tokenFrame(content: string): UpstreamStep {
  return chunkFrame({ delta: { content } });
}

/** A stream that begins well, one chunk a word, and goes on with the given steps. */
export function streamThatGoesOn(
  words: readonly string[],
  ...steps: readonly UpstreamStep[]
): UpstreamStep[] {
  return [EVENT_STREAM_HEAD, ROLE_FRAME, ...words.map(tokenFrame), ...steps];
}

/** An answer of some status, with a body as JSON or as plain text. */
export function refusal(
  status: number,
  body: string | object,
  headers: Readonly<Record<string, string>> = {},
): UpstreamStep[] {
  const isText = typeof body === "string";
  const type = isText ? "text/plain" : "application/json";
  return [
    { kind: "head", status, headers: { "content-type": type, ...headers } },
    { kind: "text", text: isText ? body : JSON.stringify(body) },
    { kind: "end" },
  ];
}
