import { EventEmitter, once } from "node:events";
import type { IncomingMessage, ServerResponse } from "node:http";
import { createServer } from "node:http";
import { text } from "node:stream/consumers";
import { setTimeout as pause } from "node:timers/promises";
import type { TestProject } from "vitest/node";
import * as z from "zod";
import { listenOnLoopback } from "./listen-on-loopback.ts";
import type { ReceivedRequest } from "./upstream-script.ts";
import { UpstreamStep } from "./upstream-script.ts";

type Writable<T> = { -readonly [K in keyof T]: T[K] };

/** One scripted engine. Tests share the process, never an engine. */
interface ScriptedEngine {
  /** One list of steps a request; the last one serves all that follow. */
  answers: UpstreamStep[][];
  /** What it says of itself, by path and with an address where replicas differ (`1/health`). */
  probes: Record<string, UpstreamStep[]>;
  readonly probed: Writable<ReceivedRequest>[];
  readonly requests: Writable<ReceivedRequest>[];
  readonly openGates: Set<string>;
  /** Emits a gate's name when it opens. */
  readonly gates: EventEmitter;
}

const Answers = z.array(z.array(UpstreamStep));
const Probes = z.record(z.string(), z.array(UpstreamStep));

/** A test that forgot a script is told so at once, where silence would be a time-out. */
const UNSCRIPTED: readonly UpstreamStep[] = [
  { kind: "head", status: 501, headers: { "content-type": "text/plain" } },
  { kind: "text", text: "No answer is scripted for this engine" },
  { kind: "end" },
];

/** Asked of every server that holds to its models; one that is told nothing of them does not have these. */
const MODELS_PATHS: ReadonlySet<string> = new Set(["/v1/models", "/api/tags"]);
const UNKNOWN_PATH: readonly UpstreamStep[] = [
  { kind: "head", status: 404, headers: { "content-type": "text/plain" } },
  { kind: "text", text: "Not Found" },
  { kind: "end" },
];

const engines = new Map<string, ScriptedEngine>();

/**
 * Starts a foreign engine that misbehaves as it is told, for the tests that run inside workerd and
 * cannot listen themselves. A test talks to `/engines/NAME` and steers it under `/control/NAME`.
 * An engine has many addresses, `/engines/NAME.1` being the next: they are replicas with one script.
 */
export async function setup(project: TestProject): Promise<() => Promise<void>> {
  const server = createServer((request, response) => {
    route(request, response).catch((error: unknown) => {
      console.error(error);
      response.destroy();
    });
  });
  const { url, close } = await listenOnLoopback(server);
  project.provide("upstreamUrl", url);
  return close;
}

async function route(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const [, area, place = "", ...rest] = (request.url ?? "").split("/");
  const [name = "", address = "0"] = place.split(".");
  const engine = engineNamed(name);
  const body = await text(request);
  if (area === "control") {
    response.end(JSON.stringify(control(engine, rest, body)));
    return;
  }
  const received = {
    address: Number(address),
    fromPort: request.socket.remotePort,
    method: request.method ?? "",
    path: `/${rest.join("/")}`,
    headers: Object.fromEntries(
      Object.entries(request.headers).map(([header, value]) => [header, String(value)]),
    ),
    body,
    closedEarly: false,
  };
  const probe = engine.probes[`${address}${received.path}`] ?? engine.probes[received.path];
  const isQuestion = probe !== undefined || MODELS_PATHS.has(received.path);
  const list = received.method === "GET" && isQuestion ? engine.probed : engine.requests;
  list.push(received);
  response.on("close", () => {
    received.closedEarly = !response.writableFinished;
  });
  const steps = list === engine.probed ? (probe ?? UNKNOWN_PATH) : nextAnswer(engine);
  await play(steps ?? UNSCRIPTED, engine, response);
}

function nextAnswer({ answers }: ScriptedEngine): readonly UpstreamStep[] | undefined {
  return answers.length > 1 ? answers.shift() : answers[0];
}

function control(engine: ScriptedEngine, [subject, name = ""]: string[], body: string): unknown {
  if (subject === "answers") engine.answers = Answers.parse(JSON.parse(body));
  if (subject === "probes") engine.probes = Probes.parse(JSON.parse(body));
  if (subject === "probed") return engine.probed;
  if (subject === "gates") {
    engine.openGates.add(name);
    engine.gates.emit(name);
  }
  return engine.requests;
}

async function play(
  steps: readonly UpstreamStep[],
  engine: ScriptedEngine,
  response: ServerResponse,
): Promise<void> {
  const closed = once(response, "close");
  for (const step of steps) {
    if (response.destroyed) return;
    // oxlint-disable-next-line no-await-in-loop -- the steps are a sequence in time
    await Promise.race([perform(step, engine, response), closed]);
  }
}

async function perform(
  step: UpstreamStep,
  engine: ScriptedEngine,
  response: ServerResponse,
): Promise<void> {
  switch (step.kind) {
    case "head":
      response.writeHead(step.status, step.headers).flushHeaders();
      return;
    case "text":
      response.write(step.text);
      return;
    case "bytes":
      response.write(Buffer.from(step.base64, "base64"));
      return;
    case "gate":
      if (!engine.openGates.has(step.name)) await once(engine.gates, step.name);
      return;
    case "pause":
      await pause(step.ms);
      return;
    case "end":
      response.end();
      return;
    case "reset":
      response.socket?.resetAndDestroy();
      return;
    case "hang":
      await once(response, "close");
  }
}

function engineNamed(name: string): ScriptedEngine {
  const engine = engines.get(name) ?? {
    answers: [],
    probes: {},
    probed: [],
    requests: [],
    openGates: new Set(),
    gates: new EventEmitter(),
  };
  engines.set(name, engine);
  return engine;
}
