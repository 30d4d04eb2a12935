import type { IncomingMessage } from "node:http";
import { Agent as HttpAgent, request as httpRequest, STATUS_CODES } from "node:http";
import { Agent as HttpsAgent, request as httpsRequest } from "node:https";
import * as z from "zod";
import { CLIENT_HEADERS } from "../../src/protocol/headers.ts";
import { SseDecoder } from "../../src/protocol/sse.ts";
import { carriesOutput, UpstreamChunk } from "../../src/protocol/upstream-answer.ts";
import { messageOf } from "../command.ts";
import type { AnswerEnd } from "./answer-end.ts";

/** A server with the OpenAI API, and how it is asked. */
export interface AskedServer {
  /** Without the version of its API. */
  readonly baseUrl: string;
  readonly model: string;
  readonly endpoint: "chat" | "completions";
  /** Whether answers go on behind their natural end, where the server knows such a wish. */
  readonly ignoresEos: boolean;
  /** An answer that takes longer counts as failed. */
  readonly answerMsMax: number;
}

export interface AskedAnswer {
  readonly prompt: string;
  readonly outputTokens: number;
  readonly token: string | undefined;
  readonly className: string | undefined;
}

const EVENT_BYTES_MAX = 1_048_576;
const ERROR_BYTES_MAX = 65_536;
const REASON_CHARACTERS_MAX = 200;
/** Statuses by which a server says that it has no room; the last one is used by some for the same. */
const REFUSALS = new Set([429, 503, 529]);
const REFUSAL_CODES = new Map([
  ["rate_limit_exceeded", 429],
  ["insufficient_quota", 429],
  ["server_is_overloaded", 503],
]);

/** Asks a server for streamed answers over connections that are kept open. */
export class AnswerStreams {
  readonly #server: AskedServer;
  readonly #agent: HttpAgent;
  readonly #request: typeof httpRequest;
  readonly #readNowMs: () => number;

  constructor(server: AskedServer, readNowMs: () => number) {
    const isSecure = server.baseUrl.startsWith("https:");
    this.#server = server;
    this.#agent = new (isSecure ? HttpsAgent : HttpAgent)({ keepAlive: true });
    this.#request = isSecure ? httpsRequest : httpRequest;
    this.#readNowMs = readNowMs;
  }

  /** Asks for one answer and follows it to its end; `onOutput` hears of each chunk with output. Never rejects. */
  async ask(
    asked: AskedAnswer,
    onOutput: (atMs: number) => void,
    signal: AbortSignal,
  ): Promise<AnswerEnd> {
    if (signal.aborted) return { kind: "cancelled" };
    const stopped = new AbortController();
    const onStop = () => stopped.abort();
    signal.addEventListener("abort", onStop, { once: true });
    const timer = setTimeout(onStop, this.#server.answerMsMax);
    try {
      return forPeople(await this.#open(asked, onOutput, stopped.signal), asked.token);
    } catch (error) {
      if (signal.aborted) return { kind: "cancelled" };
      const reason = stopped.signal.aborted ? "no whole answer in time" : messageOf(error);
      return forPeople({ kind: "failed", reason }, asked.token);
    } finally {
      clearTimeout(timer);
      signal.removeEventListener("abort", onStop);
    }
  }

  close(): void {
    this.#agent.destroy();
  }

  #open(
    asked: AskedAnswer,
    onOutput: (atMs: number) => void,
    signal: AbortSignal,
  ): Promise<AnswerEnd> {
    const { baseUrl, endpoint } = this.#server;
    const path = endpoint === "chat" ? "/v1/chat/completions" : "/v1/completions";
    const body = JSON.stringify(bodyOf(this.#server, asked));
    return new Promise((resolve, reject) => {
      const outgoing = this.#request(
        `${baseUrl}${path}`,
        { method: "POST", agent: this.#agent, signal, headers: headersOf(asked, body) },
        (response) => {
          response.on("error", reject);
          if (response.statusCode === 200) this.#follow(response, onOutput, resolve);
          else readRefusal(response, resolve);
        },
      );
      outgoing.on("error", reject);
      outgoing.end(body);
    });
  }

  #follow(
    response: IncomingMessage,
    onOutput: (atMs: number) => void,
    resolve: (end: AnswerEnd) => void,
  ): void {
    const utf8 = new TextDecoder("utf-8", { ignoreBOM: true });
    const decoder = new SseDecoder({
      decodeUtf8: (bytes) => utf8.decode(bytes),
      eventBytesMax: EVENT_BYTES_MAX,
    });
    const reader = new AnswerReader();
    response.on("data", (bytes: Buffer) => {
      const nowMs = this.#readNowMs();
      const { kind, frames } = decoder.push(bytes);
      for (const { data } of frames) if (reader.read(data)) onOutput(nowMs);
      if (kind === "event-too-large") response.destroy(new Error("an event is too large"));
    });
    response.on("end", () => resolve(reader.end()));
  }
}

/** What the events of one stream come to. */
class AnswerReader {
  #usage: { readonly prompt_tokens: number; readonly completion_tokens: number } | undefined;
  #trouble: AnswerEnd | undefined;
  #hasOutput = false;
  #isWhole = false;

  /** Returns whether the event brings output. */
  read(text: string): boolean {
    if (text === "[DONE]") {
      this.#isWhole = true;
      return false;
    }
    const body = parseJson(text);
    const error = ErrorBody.safeParse(body);
    if (error.success) this.#trouble ??= this.#troubleOf(error.data.error);
    const chunk = UpstreamChunk.safeParse(body);
    if (!chunk.success) return false;
    this.#usage = chunk.data.usage ?? this.#usage;
    const hasOutput = chunk.data.choices.some(carriesOutput);
    this.#hasOutput ||= hasOutput;
    return hasOutput;
  }

  end(): AnswerEnd {
    if (this.#trouble !== undefined) return this.#trouble;
    if (!this.#isWhole) return failedWithin("the stream ended without [DONE]");
    if (!this.#hasOutput) return failedWithin("an answer without output");
    return {
      kind: "answered",
      inputTokens: this.#usage?.prompt_tokens,
      outputTokens: this.#usage?.completion_tokens,
    };
  }

  /** A stream may have begun with a head alone, and say only then that there is no room. */
  #troubleOf(error: z.output<typeof ErrorBody>["error"]): AnswerEnd {
    const said = typeof error === "string" ? { message: error, code: undefined } : error;
    const code = typeof said.code === "string" ? said.code : undefined;
    const status = REFUSAL_CODES.get(code ?? "");
    if (status !== undefined && !this.#hasOutput) return { kind: "refused", status, code };
    return failedWithin(`an error inside the stream: ${code ?? said.message ?? "unnamed"}`);
  }
}

const ErrorBody = z.object({
  error: z.union([
    z.string(),
    z.object({
      message: z.string().optional(),
      code: z.unknown().optional(),
      type: z.unknown().optional(),
    }),
  ]),
});

function bodyOf(
  { model, endpoint, ignoresEos }: AskedServer,
  { prompt, outputTokens }: AskedAnswer,
) {
  return {
    model,
    ...(endpoint === "chat" ? { messages: [{ role: "user", content: prompt }] } : { prompt }),
    max_tokens: outputTokens,
    temperature: 0,
    stream: true,
    stream_options: { include_usage: true },
    ...(ignoresEos && { ignore_eos: true }),
  };
}

function headersOf({ token, className }: AskedAnswer, body: string) {
  return {
    "content-type": "application/json",
    "content-length": Buffer.byteLength(body),
    ...(token !== undefined && { authorization: `Bearer ${token}` }),
    ...(className !== undefined && { [CLIENT_HEADERS.className]: className }),
  };
}

function readRefusal(response: IncomingMessage, resolve: (end: AnswerEnd) => void): void {
  const status = response.statusCode ?? 0;
  let text = "";
  response.setEncoding("utf8");
  response.on("data", (piece: string) => {
    if (text.length < ERROR_BYTES_MAX) text += piece;
  });
  response.on("end", () => {
    const error = ErrorBody.safeParse(parseJson(text)).data?.error;
    const said = typeof error === "string" ? { message: error } : error;
    const code = typeof said?.code === "string" ? said.code : undefined;
    if (REFUSALS.has(status)) resolve({ kind: "refused", status, code });
    else {
      // vLLM's code is the status again, and its type the name of the error.
      const type = typeof said?.type === "string" ? said.type : undefined;
      const name = code ?? type ?? STATUS_CODES[status] ?? "";
      resolve({
        kind: "failed",
        reason: `${status} ${name}`.trim(),
        status,
        ...(said?.message !== undefined && { message: said.message }),
      });
    }
  });
}

/** The answer began well. */
function failedWithin(reason: string): AnswerEnd {
  return { kind: "failed", reason, status: 200 };
}

/** Makes what a server says fit to be shown: some tell the key that they refuse. */
function forPeople(end: AnswerEnd, token: string | undefined): AnswerEnd {
  const cleaned = (text: string) =>
    // The key first: half of one would not be found any more.
    shorten(token === undefined ? text : text.replaceAll(token, "…"));
  if (end.kind === "refused") return { ...end, code: end.code && cleaned(end.code) };
  if (end.kind !== "failed") return end;
  const { reason, message } = end;
  return {
    ...end,
    reason: cleaned(reason),
    ...(message !== undefined && { message: cleaned(message) }),
  };
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function shorten(text: string): string {
  return text.replaceAll(/[\s\p{Cc}]+/gu, " ").slice(0, REASON_CHARACTERS_MAX);
}
