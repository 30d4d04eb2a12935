import type { IncomingMessage, ServerResponse } from "node:http";
import { createServer } from "node:http";
import { text } from "node:stream/consumers";
import * as z from "zod";
import type { EngineSide } from "../../../bench/engine/engine-side.ts";
import { GREEDY } from "../../../bench/engine/engine-side.ts";
import { openLlamaCpp } from "../../../bench/engine/llama-cpp-side.ts";
import { loadModel } from "../../../gpu-backend/engine/model/load-model.ts";
import { loadChatTemplate } from "../../../gpu-backend/engine/tokenizer/chat-template.ts";
import { Detokenizer } from "../../../gpu-backend/engine/tokenizer/detokenizer.ts";
import { loadTokenizer } from "../../../gpu-backend/engine/tokenizer/tokenizer.ts";
import { ChatRequest } from "../../../src/protocol/chat.ts";

// llama.cpp behind a thin server that says of itself what `llama-server --metrics --parallel 4` does: the real
// one cannot be had by npm. Its GGUF has no words, so text becomes tokens here, by our own tokenizer.
//
//   node --import tsx server.ts PORT STEP_MS     STEP_MS: added to each step, as a larger model would take

const SLOTS = 4;
const CONTEXT_TOKENS = 1024;
const MODEL_FOLDER = new URL("../../../gpu-backend/models/sluice-tiny", import.meta.url).pathname;

const [port = 0, stepMs = 0] = process.argv.slice(2).map(Number);

interface Job {
  readonly prompt: readonly number[];
  readonly outputMax: number;
  readonly output: number[];
  slot: number;
  /** Tokens that the slot has. */
  position: number;
  isGone: boolean;
  readonly onToken: (tokenId: number) => void;
  readonly onEnd: (reason: "stop" | "length") => void;
}

const model = await loadModel(MODEL_FOLDER);
const tokenizer = await loadTokenizer(MODEL_FOLDER);
const template = await requireTemplate();
const endTokenIds = new Set(model.config.eosTokenIds);
const side: EngineSide = await openLlamaCpp(
  model,
  { precision: "f32" },
  { promptTokensMax: 8, sequencesMax: SLOTS, sequenceTokensMax: CONTEXT_TOKENS },
);

const deferred: Job[] = [];
const processing = new Set<Job>();
let isStepping = false;

const Body = z.looseObject({ stream: z.boolean().optional(), max_tokens: z.number().optional() });

const server = createServer((request, response) => {
  route(request, response).catch((error: unknown) => {
    console.error(error);
    response.destroy();
  });
});
server.listen(port, "127.0.0.1", () => console.log("listening"));

async function requireTemplate() {
  const limits = { tokenizer, contextTokens: CONTEXT_TOKENS };
  const chatTemplate = await loadChatTemplate(MODEL_FOLDER, limits);
  if (chatTemplate === undefined) throw new Error("the bundled model has a template");
  return chatTemplate;
}

async function route(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const json = (body: object, status = 200) =>
    response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
  switch (`${request.method} ${request.url}`) {
    case "GET /health":
      json({ status: "ok" });
      return;
    case "GET /props":
      json({ total_slots: SLOTS, default_generation_settings: { n_ctx: CONTEXT_TOKENS } });
      return;
    case "GET /metrics":
      response.end(
        `llamacpp:requests_processing ${processing.size}\nllamacpp:requests_deferred ${deferred.length}\n`,
      );
      return;
    case "GET /v1/models":
      json({ object: "list", data: [{ id: "sluice-tiny", owned_by: "llamacpp" }] });
      return;
    case "POST /v1/chat/completions":
      await chat(await text(request), response, json);
      return;
    default:
      json({ error: { code: 404, message: "File Not Found", type: "not_found_error" } }, 404);
  }
}

async function chat(
  body: string,
  response: ServerResponse,
  json: (body: object, status?: number) => void,
): Promise<void> {
  const raw: unknown = JSON.parse(body);
  const asked = ChatRequest.safeParse(raw);
  const wish = Body.parse(raw);
  if (!asked.success) {
    json({ error: { code: 400, message: "Bad request", type: "invalid_request_error" } }, 400);
    return;
  }
  const encoded = template.encode(asked.data.messages);
  if (encoded.kind === "refused") {
    const message = `the request exceeds the available context size (${CONTEXT_TOKENS} tokens)`;
    json({ error: { code: 400, message, type: "exceed_context_size_error" } }, 400);
    return;
  }
  const detokenizer = new Detokenizer(tokenizer.tokenBytes);
  const head = { id: `chatcmpl-${Date.now()}`, created: 0, model: asked.data.model };
  let content = "";
  const send = (choice: object, extra: object = {}): void => {
    const chunk = { ...head, object: "chat.completion.chunk", choices: [choice], ...extra };
    if (wish.stream === true) response.write(`data: ${JSON.stringify(chunk)}\n\n`);
  };
  if (wish.stream === true) response.writeHead(200, { "content-type": "text/event-stream" });
  await new Promise<void>((resolve) => {
    const job: Job = {
      prompt: encoded.promptTokens,
      outputMax: Math.min(
        wish.max_tokens ?? Infinity,
        CONTEXT_TOKENS - encoded.promptTokens.length,
      ),
      output: [],
      slot: 0,
      position: 0,
      isGone: false,
      onToken: (tokenId) => {
        const piece = detokenizer.push(tokenId);
        content += piece;
        if (piece !== "") send({ index: 0, delta: { content: piece }, finish_reason: null });
      },
      onEnd: (reason) => {
        const usage = {
          prompt_tokens: job.prompt.length,
          completion_tokens: job.output.length,
          total_tokens: job.prompt.length + job.output.length,
        };
        if (wish.stream === true) {
          send({ index: 0, delta: {}, finish_reason: reason });
          const last = { ...head, object: "chat.completion.chunk", choices: [], usage };
          response.write(`data: ${JSON.stringify(last)}\n\n`);
          response.end("data: [DONE]\n\n");
        } else {
          const message = { role: "assistant", content };
          const choice = { index: 0, message, finish_reason: reason };
          json({ ...head, object: "chat.completion", choices: [choice], usage });
        }
        resolve();
      },
    };
    // As the real one does: a connection that closes frees the slot.
    response.on("close", () => {
      job.isGone = true;
      resolve();
    });
    deferred.push(job);
    void step();
  });
}

/** Computes one step after the other while there is anything to do; one prompt a step. */
async function step(): Promise<void> {
  if (isStepping) return;
  isStepping = true;
  for (;;) {
    dropGone();
    takeIn();
    const jobs = [...processing];
    if (jobs.length === 0) break;
    const fresh = jobs.find((job) => job.position === 0);
    const parts = jobs.flatMap((job) => {
      if (job.position === 0 && job !== fresh) return [];
      const tokens = job.position === 0 ? job.prompt : job.output.slice(-1);
      return [{ job, sequence: job.slot, startPosition: job.position, tokens }];
    });
    // oxlint-disable-next-line no-await-in-loop -- a step follows the one before
    const sampled = await side.step(parts, GREEDY);
    // oxlint-disable-next-line no-await-in-loop -- see above
    await new Promise((resolve) => setTimeout(resolve, stepMs));
    for (const [index, { job, tokens }] of parts.entries()) {
      job.position += tokens.length;
      sampledFor(job, sampled[index] ?? -1);
    }
  }
  isStepping = false;
}

function sampledFor(job: Job, tokenId: number): void {
  job.output.push(tokenId);
  const isEnd = endTokenIds.has(tokenId);
  if (!isEnd) job.onToken(tokenId);
  if (!isEnd && job.output.length < job.outputMax) return;
  processing.delete(job);
  side.rewind(job.slot, 0);
  if (!job.isGone) job.onEnd(isEnd ? "stop" : "length");
}

function dropGone(): void {
  for (const job of processing) {
    if (!job.isGone) continue;
    processing.delete(job);
    side.rewind(job.slot, 0);
  }
  deferred.splice(0, deferred.length, ...deferred.filter((job) => !job.isGone));
}

function takeIn(): void {
  const taken = new Set([...processing].map(({ slot }) => slot));
  for (let slot = 1; slot <= SLOTS && deferred.length > 0; slot += 1) {
    const job = taken.has(slot) ? undefined : deferred.shift();
    if (job === undefined) continue;
    job.slot = slot;
    processing.add(job);
  }
}
