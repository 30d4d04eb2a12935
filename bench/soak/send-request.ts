import { setTimeout } from "node:timers/promises";
import type { SoakRequest } from "./random-request.ts";

/** What a client saw of one request. */
export interface SoakAnswer {
  /** `left`: its client went away by itself; `wrong`: the server did what it must not. */
  readonly kind: "served" | "refused" | "overloaded" | "left" | "wrong";
  readonly outputTokens: number;
  /** Choices that were read to their end. */
  readonly choices: number;
  /** What was wrong. */
  readonly fault?: string;
}

/** Nothing here takes a tenth of it, so a request that does has been forgotten. */
const ANSWER_MS_MAX = 120_000;

/** Sends a request and judges the answer. Never rejects, and settles in any case. */
export async function sendRequest(
  url: string,
  secret: string,
  request: SoakRequest,
): Promise<SoakAnswer> {
  const leaving = new AbortController();
  const isSettled = new AbortController();
  const hung = setTimeout(ANSWER_MS_MAX, wrong(request, `no end after ${ANSWER_MS_MAX} ms`), {
    signal: isSettled.signal,
  });
  const answer = fetch(url + request.path, {
    method: "POST",
    headers: { ...request.headers, authorization: `Bearer ${secret}` },
    body: request.body,
    signal: leaving.signal,
  }).then((response) => readAnswer(response, request));
  if (request.leavesAfterPieces === 0) leaving.abort();
  try {
    const judged = answer.then((read) => (read === "left" ? LEFT : judge(request, read)));
    return await Promise.race([judged, hung]);
  } catch (error) {
    return leaving.signal.aborted ? LEFT : wrong(request, String(error));
  } finally {
    hung.catch(() => {});
    isSettled.abort();
    leaving.abort();
  }
}

const LEFT: SoakAnswer = { kind: "left", outputTokens: 0, choices: 0 };

interface ReadAnswer {
  readonly status: number;
  readonly text: string;
}

/** Reads an answer to its end, or as much of it as its client cares for. */
async function readAnswer(response: Response, request: SoakRequest): Promise<ReadAnswer | "left"> {
  const decoder = new TextDecoder();
  let text = "";
  let pieces = 0;
  for await (const piece of response.body ?? []) {
    text += decoder.decode(piece, { stream: true });
    pieces += 1;
    if (pieces === request.leavesAfterPieces) return "left";
  }
  return { status: response.status, text };
}

function judge(request: SoakRequest, { status, text }: ReadAnswer): SoakAnswer {
  if (status === 503) return { kind: "overloaded", outputTokens: 0, choices: 0 };
  if (status >= 400) {
    const isRight = request.expects === "refusal" && status < 500 && "error" in JSON.parse(text);
    return isRight
      ? { kind: "refused", outputTokens: 0, choices: 0 }
      : wrong(request, `${status} ${text.slice(0, 300)}`);
  }
  if (request.expects === "refusal") return wrong(request, `${status} where it must be refused`);
  const last = request.expects === "stream" ? lastOfStream(text) : JSON.parse(text);
  if (last === undefined) return wrong(request, `a stream that ends with ${text.slice(-200)}`);
  return {
    kind: "served",
    outputTokens: last.usage?.completion_tokens ?? 0,
    choices: request.expects === "stream" ? countEnds(text) : (last.choices?.length ?? 0),
  };
}

interface LastObject {
  readonly usage?: { readonly completion_tokens?: number };
  readonly choices?: readonly unknown[];
}

/** The chunk with the usage; undefined unless the stream ended as it must. */
function lastOfStream(text: string): LastObject | undefined {
  const frames = text.split("\n\n").filter((frame) => frame.startsWith("data: "));
  if (frames.at(-1) !== "data: [DONE]") return undefined;
  const last: LastObject = JSON.parse((frames.at(-2) ?? "").slice("data: ".length));
  return last.usage === undefined ? undefined : last;
}

function countEnds(text: string): number {
  return text.match(/"finish_reason":"/g)?.length ?? 0;
}

function wrong(request: SoakRequest, reason: string): SoakAnswer {
  const fault = `${request.name} ${request.path}: ${reason}`;
  return { kind: "wrong", outputTokens: 0, choices: 0, fault };
}
