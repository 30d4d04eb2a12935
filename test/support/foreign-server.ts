import type { IncomingHttpHeaders, IncomingMessage } from "node:http";
import { createServer } from "node:http";
import type { ListeningServer } from "./listen-on-loopback.ts";
import { listenOnLoopback } from "./listen-on-loopback.ts";

/** A server that takes a request and never answers it. */
export const SILENCE = { silence: true };

/** What a server answers at one path: a text, JSON, `{ status, body }`, or `SILENCE`. */
export type ForeignAnswer = string | object;

/** A server that is not ours, as far as it says something of itself. */
export interface ForeignServer extends ListeningServer {
  /** Paths that were asked for, oldest first. */
  readonly paths: string[];
  /** All of their headers. */
  readonly headers: IncomingHttpHeaders[];
  /** Their `authorization` headers. */
  readonly bearers: (string | undefined)[];
}

/** Starts one on loopback; what it has no answer for is 404, as everywhere. */
export async function startForeignServer(
  answers: Readonly<Record<string, ForeignAnswer>>,
): Promise<ForeignServer> {
  const paths: string[] = [];
  const headers: IncomingHttpHeaders[] = [];
  const bearers: (string | undefined)[] = [];
  const server = createServer((request: IncomingMessage, response) => {
    const path = request.url ?? "";
    paths.push(path);
    headers.push(request.headers);
    bearers.push(request.headers.authorization);
    const answer = answers[path];
    if (answer === SILENCE) return;
    if (answer === undefined) {
      response.writeHead(404).end('{"detail":"Not Found"}');
    } else if (typeof answer === "string") {
      const isStream = answer.startsWith("data:");
      response.writeHead(200, { "content-type": isStream ? "text/event-stream" : "text/plain" });
      response.end(answer);
    } else if (isRaw(answer)) {
      response.writeHead(answer.status).end(answer.body);
    } else {
      response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(answer));
    }
  });
  return { ...(await listenOnLoopback(server)), paths, headers, bearers };
}

function isRaw(answer: object): answer is { readonly status: number; readonly body: string } {
  return "status" in answer && "body" in answer;
}
