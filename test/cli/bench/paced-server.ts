import type { IncomingMessage, ServerResponse } from "node:http";
import { createServer } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import * as z from "zod";
import type { ListeningServer } from "../../support/listen-on-loopback.ts";
import { listenOnLoopback } from "../../support/listen-on-loopback.ts";

/** What was asked of a paced server. */
export interface AskedOfServer {
  readonly words: number;
  readonly maxTokens: number;
  readonly ignoresEos: boolean;
  readonly authorization: string | undefined;
  readonly className: string | undefined;
}

export type PacedAnswer =
  | { readonly kind: "stream"; readonly ttftMs: number; readonly gapMs: number }
  | { readonly kind: "status"; readonly status: number; readonly body: string }
  /** Sends these pieces one by one, and ends or breaks off. */
  | { readonly kind: "pieces"; readonly pieces: readonly string[]; readonly breaks: boolean }
  | { readonly kind: "silence" };

/** A server with the OpenAI API whose model says what it is told to, at a pace of its own. */
export interface PacedServer extends ListeningServer {
  readonly asked: AskedOfServer[];
}

const Body = z.object({
  max_tokens: z.int(),
  ignore_eos: z.boolean().default(false),
  messages: z.array(z.object({ content: z.string() })).optional(),
  prompt: z.string().optional(),
});

/** So it counts: two tokens a word, and seven of its template. */
export const countTokens = (words: number) => 2 * words + 7;

export async function startPacedServer(
  answerTo: (asked: AskedOfServer, place: number) => PacedAnswer,
  modelId = "stand-in",
): Promise<PacedServer> {
  const asked: AskedOfServer[] = [];
  const server = createServer((request, response) => {
    if (request.url === "/v1/models") {
      response.end(JSON.stringify({ data: [{ id: modelId }] }));
      return;
    }
    if (request.method !== "POST") {
      response.writeHead(404).end();
      return;
    }
    void readAsked(request).then((one) => {
      asked.push(one);
      return give(answerTo(one, asked.length - 1), one, response);
    });
  });
  return { ...(await listenOnLoopback(server)), asked };
}

export const event = (body: object) => `data: ${JSON.stringify(body)}\n\n`;
export const token = (content: string) => event({ choices: [{ index: 0, delta: { content } }] });

async function readAsked(request: IncomingMessage): Promise<AskedOfServer> {
  let text = "";
  for await (const piece of request) text += String(piece);
  const body = Body.parse(JSON.parse(text));
  const { authorization, "x-sluice-class": className } = request.headers;
  return {
    words: (body.messages?.[0]?.content ?? body.prompt ?? "").split(" ").length,
    maxTokens: body.max_tokens,
    ignoresEos: body.ignore_eos,
    authorization,
    className: typeof className === "string" ? className : undefined,
  };
}

async function give(answer: PacedAnswer, asked: AskedOfServer, response: ServerResponse) {
  switch (answer.kind) {
    case "silence":
      return;
    case "status":
      response.writeHead(answer.status, { "content-type": "application/json" }).end(answer.body);
      return;
    case "pieces":
      response.writeHead(200, { "content-type": "text/event-stream" });
      for (const piece of answer.pieces) {
        response.write(piece);
        await sleep(1);
      }
      if (answer.breaks) response.destroy();
      else response.end();
      return;
    case "stream":
      response.writeHead(200, { "content-type": "text/event-stream" });
      response.write(event({ choices: [{ index: 0, delta: { role: "assistant", content: "" } }] }));
      for (let sent = 0; sent < asked.maxTokens; sent += 1) {
        await sleep(sent === 0 ? answer.ttftMs : answer.gapMs);
        response.write(token("word "));
      }
      response.write(
        event({
          choices: [],
          usage: {
            prompt_tokens: countTokens(asked.words),
            completion_tokens: asked.maxTokens,
          },
        }),
      );
      response.end("data: [DONE]\n\n");
  }
}
