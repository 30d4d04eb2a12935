import { createLog } from "../../gpu-backend/log.ts";
import { runEngine } from "../../gpu-backend/run-engine.ts";
import { parseSettings } from "../../gpu-backend/settings.ts";
import type { ChatCompletion, ChatCompletionChunk } from "../../src/protocol/chat-response.ts";
import type { Completion } from "../../src/protocol/completion-response.ts";
import type { ErrorEnvelope } from "../../src/protocol/errors.ts";
import type { KvNeighbours } from "../../gpu-backend/kv-peers/kv-neighbours.ts";
import type { EngineHold } from "./engine-hold.mjs";
import { eventually } from "./eventually.ts";

/** One line of an engine's log. */
export type LogLine = Readonly<Record<string, unknown>>;

/** A whole engine of this process, with the bundled model, on a port of its own. */
export interface TestEngine {
  readonly url: string;
  readonly log: readonly LogLine[];
  fetch(path: string, init?: RequestInit): Promise<Response>;
  /** Posts to a route; `model` is filled in. */
  post(path: string, body: object, init?: RequestInit): Promise<Response>;
  /** Posts a chat request; `model` and a question are filled in. */
  chat(body: object, init?: RequestInit): Promise<Response>;
  /** The value of one metric without labels. */
  metric(name: string): Promise<number>;
  /** Asks until the answer is yes; an engine that is held takes a step between any two looks. */
  stepUntil(what: string, ask: () => boolean | Promise<boolean>): Promise<void>;
  /** Waits until nothing runs or waits, and then returns the share of the KV blocks in use. */
  idleKvUsage(): Promise<number>;
  stop(): Promise<void>;
}

/** Compiling the model takes a second on an idle core, and far more where tests run side by side. */
export const ENGINE_START_MS_MAX = 60_000;

/**
 * Starts an engine by the flags it would be started with; the secret is the environment's. Its thread is in the
 * hands of `hold`, if there is one; KV goes in memory between those with the same `neighbours`.
 */
export async function startEngine(
  flags: readonly string[] = [],
  secret?: string,
  hold?: EngineHold,
  neighbours?: KvNeighbours,
): Promise<TestEngine> {
  const argv = ["--port", "0", "--kv-blocks", "256", "--drain-ms", "0", ...flags];
  const parsed = parseSettings(argv, { SLUICE_REPLICA_SECRET: secret });
  if (parsed.kind !== "settings") throw new Error(JSON.stringify(parsed));
  const log: LogLine[] = [];
  const release = hold?.intercept();
  const engine = await runEngine(
    parsed.settings,
    createLog((line) => log.push(JSON.parse(line))),
    neighbours,
  ).finally(release);
  const { url } = engine;
  const send = (path: string, init: RequestInit = {}): Promise<Response> => {
    const headers = new Headers(init.headers);
    if (secret !== undefined && !headers.has("authorization")) {
      headers.set("authorization", `Bearer ${secret}`);
    }
    return fetch(`${url}${path}`, { ...init, headers });
  };
  const post = (path: string, body: object, init?: RequestInit): Promise<Response> =>
    send(path, {
      method: "POST",
      body: JSON.stringify({ model: "sluice-tiny", ...body }),
      ...init,
    });
  const metric = async (name: string): Promise<number> => {
    const text = await (await send("/metrics")).text();
    const [, value] = new RegExp(`^${name} (\\S+)$`, "m").exec(text) ?? [];
    if (value === undefined) throw new Error(`There is no metric ${name}`);
    return Number(value);
  };
  const stepUntil: TestEngine["stepUntil"] = (what, ask) =>
    eventually(what, () => {
      hold?.step();
      return ask();
    });
  return {
    url,
    log,
    fetch: send,
    post,
    chat: (body, init) =>
      post("/v1/chat/completions", { messages: [question("Hello!")], ...body }, init),
    metric,
    stepUntil,
    idleKvUsage: async () => {
      await stepUntil("the engine is idle", async () => {
        const running = await metric("engine_num_requests_running");
        return running + (await metric("engine_num_requests_waiting")) === 0;
      });
      return metric("engine_kv_cache_usage_perc");
    },
    stop: () => {
      hold?.letGo();
      return engine.stop();
    },
  };
}

/** A user's message. */
export function question(content: string): { role: "user"; content: string } {
  return { role: "user", content };
}

/** Asks for a text so long that it is still being written when a test interferes. */
export const LONG_TASK = {
  messages: [question("Tell me a very long story about a fox named Lily.")],
  temperature: 0.7,
  seed: 1,
};

/** Reads a whole answer; throws unless it is one. */
export async function readCompletion(response: Response): Promise<ChatCompletion> {
  if (response.status !== 200) throw new Error(`${response.status} ${await response.text()}`);
  const completion: ChatCompletion = JSON.parse(await response.text());
  return completion;
}

/** Reads a whole completion; throws unless it is one. */
export async function readText(response: Response): Promise<Completion> {
  if (response.status !== 200) throw new Error(`${response.status} ${await response.text()}`);
  const completion: Completion = JSON.parse(await response.text());
  return completion;
}

/** Reads the chunks of a stream that ended well; throws unless it did. */
export async function readChunks<Chunk>(response: Response): Promise<Chunk[]> {
  if (response.status !== 200) throw new Error(`${response.status} ${await response.text()}`);
  const frames = (await response.text()).split("\n\n").filter((frame) => frame.includes("data: "));
  const datas = frames.map((frame) => frame.slice(frame.indexOf("data: ") + "data: ".length));
  if (datas.at(-1) !== "[DONE]") throw new Error(`Expected [DONE], found ${datas.at(-1)}`);
  return datas.slice(0, -1).map((data) => JSON.parse(data));
}

/** Reads an error; the status is that of the response. */
export async function readProblem(
  response: Response,
): Promise<ErrorEnvelope["error"] & { status: number; retryAfter: string | null }> {
  const envelope: ErrorEnvelope = JSON.parse(await response.text());
  const retryAfter = response.headers.get("retry-after");
  return { ...envelope.error, status: response.status, retryAfter };
}

/** What a stream came to. */
export interface StreamedAnswer {
  readonly chunks: readonly ChatCompletionChunk[];
  readonly text: string;
  readonly finishReasons: readonly string[];
  readonly usage: ChatCompletionChunk["usage"];
  /** The data of the last frame: `[DONE]` when all went well. */
  readonly lastData: string;
}

/** Reads a stream to its end. */
export async function readStream(response: Response): Promise<StreamedAnswer> {
  if (response.status !== 200) throw new Error(`${response.status} ${await response.text()}`);
  const frames = (await response.text()).split("\n\n").filter((frame) => frame.includes("data: "));
  const datas = frames.map((frame) => frame.slice(frame.indexOf("data: ") + "data: ".length));
  const chunks: ChatCompletionChunk[] = datas.slice(0, -1).map((data) => JSON.parse(data));
  const choices = chunks.flatMap((chunk) => chunk.choices);
  return {
    chunks,
    text: choices.map((choice) => choice.delta.content ?? "").join(""),
    finishReasons: choices.flatMap((choice) => choice.finish_reason ?? []),
    usage: chunks.at(-1)?.usage,
    lastData: datas.at(-1) ?? "",
  };
}
