import type { IncomingMessage } from "node:http";
import { ProblemError } from "./problem-error.ts";

/**
 * Reads a request's body as text. A body of more than `bytesMax` is 413, at once if it announces
 * its length and else when it gets there; the connection then closes, since the rest of the body
 * would stand before the next request.
 */
export async function readBody(incoming: IncomingMessage, bytesMax: number): Promise<string> {
  if (Number(incoming.headers["content-length"] ?? 0) > bytesMax) throw tooLarge(bytesMax);
  const chunks: Buffer[] = [];
  let bytes = 0;
  // Left early, the iterator would destroy the socket, and the client would never see the answer.
  for await (const chunk of incoming.iterator({ destroyOnReturn: false })) {
    bytes += chunk.length;
    if (bytes > bytesMax) throw tooLarge(bytesMax);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString("utf8");
}

function tooLarge(bytesMax: number): ProblemError {
  const message = `Expected a request body of at most ${bytesMax} bytes, found a larger one`;
  return new ProblemError({ code: "request_too_large", message }, { connection: "close" });
}
