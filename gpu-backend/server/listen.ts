import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { getRequestListener } from "@hono/node-server";
import type { EngineApp } from "./app-context.ts";

/**
 * Gateways keep connections for later requests. A connection that the engine closes just then
 * fails a request, so the engine waits longer than the minute after which gateways give up.
 */
const KEEP_ALIVE_MS = 90_000;
/** Bound what a client can hold open that sends next to nothing; bodies are bounded in size. */
const HEADERS_MS_MAX = 30_000;
const REQUEST_MS_MAX = 120_000;

const IDLE_CHECK_MS = 20;

export interface ListenAddress {
  readonly host: string;
  readonly port: number;
}

export interface Listener {
  /** Where clients reach the app. */
  readonly url: string;
  /** Takes no new connection, gives open answers `graceMs` to be read, then ends all of them. */
  close(graceMs: number): Promise<void>;
}

/** Serves the app. Rejects with a sentence that names the flags if the address cannot be had. */
export async function listen(app: EngineApp, address: ListenAddress): Promise<Listener> {
  const answerRequest = getRequestListener(app.fetch);
  const http = createServer(
    {
      keepAlive: true,
      keepAliveTimeout: KEEP_ALIVE_MS,
      headersTimeout: HEADERS_MS_MAX,
      requestTimeout: REQUEST_MS_MAX,
    },
    // A rejection has been answered by the listener already, or there is no one left to answer.
    (incoming, outgoing) => void answerRequest(incoming, outgoing),
  );
  await new Promise<void>((resolve, reject) => {
    http.once("error", (error: NodeJS.ErrnoException) => {
      reject(explain(error, address));
    });
    http.listen(address.port, address.host, resolve);
  });
  return { url: urlOf(http.address()), close: (graceMs) => close(http, graceMs) };
}

function explain(error: NodeJS.ErrnoException, { host, port }: ListenAddress): Error {
  const sentences = new Map([
    ["EADDRINUSE", `Port ${port} on ${host} is taken: choose another one with --port`],
    ["EACCES", `Port ${port} needs rights that this user lacks: choose another one with --port`],
    ["EADDRNOTAVAIL", `${host} is no address of this machine: choose another one with --host`],
    ["ENOTFOUND", `${host} is no known host name: choose another one with --host`],
  ]);
  return new Error(sentences.get(error.code ?? "") ?? error.message, { cause: error });
}

function urlOf(address: AddressInfo | string | null): string {
  if (address === null || typeof address === "string") throw new Error("Expected a TCP address");
  const host = address.family === "IPv6" ? `[${address.address}]` : address.address;
  return `http://${host}:${address.port}`;
}

async function close(http: Server, graceMs: number): Promise<void> {
  const closed = new Promise<void>((resolve) => {
    http.close(() => resolve());
  });
  // A connection whose last answer ends from now on stays open, idle, until somebody closes it.
  const idleTimer = setInterval(() => http.closeIdleConnections(), IDLE_CHECK_MS);
  const graceTimer = setTimeout(() => http.closeAllConnections(), graceMs);
  await closed;
  clearInterval(idleTimer);
  clearTimeout(graceTimer);
}
