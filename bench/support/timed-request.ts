import type { Agent } from "node:http";
import { request } from "node:http";
import * as z from "zod";

/** One streamed chat completion to measure. */
export interface TimedRequest {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  /** Keeps connections, so that none is opened inside a measurement. */
  readonly agent: Agent;
}

/** What was measured of it, both from the instant at which it was sent. */
export interface Timing {
  readonly firstTokenMs: number;
  readonly totalMs: number;
  /** Deltas that carried text. */
  readonly chunks: number;
  /** As the stream's last event with counts tells them; 0 where none does. */
  readonly promptTokens: number;
  readonly cachedTokens: number;
  readonly outputTokens: number;
}

/** The same, and the text that came. */
export interface TimedAnswer extends Timing {
  readonly answer: string;
}

// The first delta that carries text. It may arrive in pieces, so all that has come is searched.
const TOKEN = /"content":"(?!")/;
const TOKENS = new RegExp(TOKEN, "g");
const ANSWER_WITHIN_MS = 30_000;

/** Sends one request and reads its stream to the end. Rejects if that is not a whole answer. */
export function timeRequest({ url, headers, body, agent }: TimedRequest): Promise<TimedAnswer> {
  return new Promise((resolve, reject) => {
    const outgoing = request(url, {
      method: "POST",
      agent,
      timeout: ANSWER_WITHIN_MS,
      headers: {
        ...headers,
        "content-type": "application/json",
        "content-length": Buffer.byteLength(body),
      },
    });
    let sentAtMs = 0;
    outgoing.on("error", reject);
    outgoing.on("timeout", () => outgoing.destroy(new Error("No answer in time")));
    outgoing.on("response", (response) => {
      let text = "";
      let firstTokenMs: number | undefined;
      response.setEncoding("utf8");
      response.on("error", reject);
      response.on("data", (piece: string) => {
        text += piece;
        if (firstTokenMs === undefined && TOKEN.test(text)) {
          firstTokenMs = performance.now() - sentAtMs;
        }
      });
      response.on("end", () => {
        const totalMs = performance.now() - sentAtMs;
        if (firstTokenMs !== undefined && text.trimEnd().endsWith("data: [DONE]")) {
          const chunks = text.match(TOKENS)?.length ?? 0;
          resolve({ firstTokenMs, totalMs, chunks, ...readAnswer(text) });
        } else {
          reject(new Error(`Status ${response.statusCode}, not a whole answer: ${text}`));
        }
      });
    });
    sentAtMs = performance.now();
    outgoing.end(body);
  });
}

const Chunk = z.object({
  choices: z.array(z.object({ delta: z.object({ content: z.string().nullish() }) })),
  usage: z
    .object({
      prompt_tokens: z.number(),
      completion_tokens: z.number(),
      prompt_tokens_details: z.object({ cached_tokens: z.number() }).nullish(),
    })
    .nullish(),
});

function readAnswer(text: string) {
  const chunks = text
    .split("\n")
    .filter((line) => line.startsWith("data: {"))
    .map((line) => Chunk.parse(JSON.parse(line.slice("data: ".length))));
  const usage = chunks.findLast((chunk) => chunk.usage)?.usage;
  return {
    promptTokens: usage?.prompt_tokens ?? 0,
    cachedTokens: usage?.prompt_tokens_details?.cached_tokens ?? 0,
    outputTokens: usage?.completion_tokens ?? 0,
    answer: chunks
      .flatMap(({ choices }) => choices)
      .map(({ delta }) => delta.content ?? "")
      .join(""),
  };
}
