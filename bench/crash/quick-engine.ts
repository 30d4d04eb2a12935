import { randomUUID } from "node:crypto";
import { once } from "node:events";
import type { IncomingMessage, ServerResponse } from "node:http";
import { createServer } from "node:http";
import { text } from "node:stream/consumers";
import { setTimeout as pause } from "node:timers/promises";
import { WebSocket } from "ws";
import type { ReplicaHello, ReplicaReport } from "../../src/protocol/engine-api.ts";
import { REPORT_INTERVAL_MS } from "../../src/protocol/engine-api.ts";
import type { Random } from "../../src/base/random.ts";

const RECONNECT_MS = 50;
const OUTPUT_TOKENS_MAX = 12;
const TOKEN_MS = 3;
const PROMPT_TOKENS_MAX = 40;

/** What a gateway's pool is told of such an engine: that it is quick and has room. */
const HELLO: Omit<ReplicaHello, "endpointUrl" | "instanceId"> = {
  kind: "hello",
  protocolVersion: 3,
  modelId: "sluice-tiny",
  contextTokens: 2048,
  blockTokens: 16,
  blockCount: 4096,
  sequencesMax: 64,
  queueMax: 64,
  batchTokensMax: 512,
  keepsTbt: false,
};
const REPORT: Omit<ReplicaReport, "sequence"> = {
  kind: "report",
  queuedRequests: 0,
  runningRequests: 0,
  usedBlocks: 0,
  blockTokens: 16,
  blockCount: 4096,
  queuedUncachedTokens: 0,
  queuedAttendedPairs: 0,
  runningKvTokens: 0,
  waitingKvTokens: 0,
  step: { fixedMs: 2, tokenMs: 0.01, attendedPairMs: 0, sequenceMs: 0, kvTokenMs: 0 },
  speedRatio: 1,
  prefillTimeRatio: 0,
  prefillTokensPerSecond: 50_000,
  stepMs: 2,
  tightestTbtMs: null,
  lastDispatch: null,
  draining: false,
};

/** An engine that computes nothing, and counts what it says; it dials in again whenever it is cut off. */
export interface QuickEngine {
  close(): Promise<void>;
}

/** Starts one; how long its answers are is drawn at random. */
export async function startQuickEngine(
  options: { readonly port: number; readonly poolUrl: string; readonly secret: string },
  random: Random,
): Promise<QuickEngine> {
  const { port, poolUrl, secret } = options;
  const server = createServer((request, response) => {
    answer(request, response, random).catch(() => response.destroy());
  });
  server.listen(port, "127.0.0.1");
  await once(server, "listening");
  const ended = new AbortController();
  const hello = { ...HELLO, endpointUrl: `http://127.0.0.1:${port}`, instanceId: randomUUID() };
  const dialling = dialAgain(poolUrl, secret, hello, ended.signal);
  return {
    close: async () => {
      ended.abort();
      await dialling;
      const closed = once(server, "close");
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

async function dialAgain(
  poolUrl: string,
  secret: string,
  hello: ReplicaHello,
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted) {
    const socket = new WebSocket(poolUrl, { headers: { authorization: `Bearer ${secret}` } });
    let sequence = 0;
    const report = (): void => {
      sequence += 1;
      socket.send(JSON.stringify({ sequence, ...REPORT }));
    };
    let heartbeat: ReturnType<typeof setInterval> | undefined;
    socket.on("open", () => {
      socket.send(JSON.stringify(hello));
      report();
      heartbeat = setInterval(report, REPORT_INTERVAL_MS);
    });
    // That the gateway is away is what this is for.
    socket.on("error", () => {});
    const end = (): void => socket.terminate();
    signal.addEventListener("abort", end, { once: true });
    // oxlint-disable-next-line no-await-in-loop -- one connection after the other
    await new Promise<void>((resolve) => {
      socket.on("close", () => resolve());
    });
    clearInterval(heartbeat);
    signal.removeEventListener("abort", end);
    // oxlint-disable-next-line no-await-in-loop
    await pause(RECONNECT_MS);
  }
}

async function answer(
  request: IncomingMessage,
  response: ServerResponse,
  random: Random,
): Promise<void> {
  const body: { stream?: boolean } = JSON.parse(await text(request));
  const outputTokens = 1 + Math.floor(random() * OUTPUT_TOKENS_MAX);
  const usage = {
    prompt_tokens: 1 + Math.floor(random() * PROMPT_TOKENS_MAX),
    completion_tokens: outputTokens,
    prompt_tokens_details: { cached_tokens: 0 },
  };
  const identity = { id: randomUUID(), created: 0, model: "sluice-tiny" };
  if (body.stream !== true) {
    await pause(TOKEN_MS * outputTokens);
    const choice = {
      index: 0,
      message: { role: "assistant", content: "a" },
      finish_reason: "stop",
    };
    response.setHeader("content-type", "application/json");
    const object = "chat.completion";
    response.end(JSON.stringify({ ...identity, object, choices: [choice], usage }));
    return;
  }
  response.writeHead(200, { "content-type": "text/event-stream" });
  const say = (chunk: object): void => {
    const data = { ...identity, object: "chat.completion.chunk", ...chunk };
    response.write(`data: ${JSON.stringify(data)}\n\n`);
  };
  for (let count = 0; count < outputTokens; count += 1) {
    // oxlint-disable-next-line no-await-in-loop -- tokens come one after the other
    await pause(TOKEN_MS);
    say({ choices: [{ index: 0, delta: { content: "a" }, finish_reason: null }] });
  }
  say({ choices: [{ index: 0, delta: {}, finish_reason: "stop" }] });
  say({ choices: [], usage });
  response.end("data: [DONE]\n\n");
}
