import type { Problem } from "../protocol/errors.ts";
import { toErrorEnvelope } from "../protocol/errors.ts";
import { encodeSseFrame } from "../protocol/sse.ts";

/** Writes the error event that ends a stream whose status has already been sent as 200. */
export function encodeErrorFrame(problem: Problem): string {
  return encodeSseFrame({ event: "error", data: JSON.stringify(toErrorEnvelope(problem)) });
}
