import { fileURLToPath } from "node:url";
import { expect, onTestFinished, test } from "vitest";
import { NO_SPECULATING } from "../../../gpu-backend/engine/speculation/speculating.ts";
import { EngineClient } from "../../../gpu-backend/engine-client.ts";
import { loadChatTemplate } from "../../../gpu-backend/engine/tokenizer/chat-template.ts";
import { loadTokenizer } from "../../../gpu-backend/engine/tokenizer/tokenizer.ts";
import { PromptEncoder } from "../../../gpu-backend/prompt-encoder.ts";
import { createApp } from "../../../gpu-backend/server/app.ts";
import { DispatchTracker } from "../../../gpu-backend/engine/dispatch-tracker.ts";
import { EndedRequests } from "../../../gpu-backend/server/ended-requests.ts";
import { createEngineMetrics } from "../../../gpu-backend/server/engine-metrics.ts";
import { listen } from "../../../gpu-backend/server/listen.ts";
import { TokenLabels } from "../../../gpu-backend/server/token-labels.ts";
import { aScheduling } from "../../support/engine-builders.ts";
import { eventually } from "../../support/eventually.ts";
import { question, readProblem } from "../../support/running-engine.ts";

const MODEL = fileURLToPath(new URL("../../../gpu-backend/models/sluice-tiny", import.meta.url));
const FAULTY_THREAD = new URL("../../support/faulty-engine-thread.mjs", import.meta.url);

/** The HTTP surface over a thread that goes wrong in the given way. */
async function serveOver(fault: string, options: { isLoaded: boolean } = { isLoaded: true }) {
  const engine = new EngineClient({
    thread: {
      modelDirectory: fault,
      precision: "f32",
      kvPrecision: undefined,
      runtime: "wasm",
      blockTokens: 16,
      blockCount: undefined,
      batchTokensMax: 16,
      sequencesMax: 2,
      queueMax: 1,
      prefixCache: true,
      scheduling: aScheduling(),
      speculating: NO_SPECULATING,
    },
    threadUrl: FAULTY_THREAD,
  });
  const tokenizer = await loadTokenizer(MODEL);
  const contextTokens = 2048;
  const model = {
    name: "sluice-tiny",
    createdAtSeconds: 1,
    systemFingerprint: "fp",
    contextTokens,
    blockTokens: 16,
    endTokenIds: [1, 5],
    vocabularyTokens: tokenizer.vocabularyTokens,
    prompts: new PromptEncoder({
      model: {
        tokenizer,
        chatTemplate: await loadChatTemplate(MODEL, { tokenizer, contextTokens }),
        contextTokens,
      },
      modelDirectory: MODEL,
    }),
    tokenBytes: tokenizer.tokenBytes,
    tokenLabels: new TokenLabels(tokenizer.tokenBytes, tokenizer.specialTokens),
  };
  const log: string[] = [];
  const app = createApp({
    engine,
    servedModel: () => (options.isLoaded ? model : undefined),
    secret: undefined,
    requireSalt: false,
    prefixCache: true,
    metrics: createEngineMetrics(() => engine.load),
    dispatches: new DispatchTracker(),
    endedRequests: new EndedRequests(),
    log: (level, event) => log.push(`${level} ${event}`),
  });
  const listener = await listen(app, { host: "127.0.0.1", port: 0 });
  onTestFinished(async () => {
    await engine.close("The test is over");
    await listener.close(0);
  });
  await engine.loaded;
  const chat = (body: object) =>
    fetch(`${listener.url}/v1/chat/completions`, {
      method: "POST",
      body: JSON.stringify({ model: "sluice-tiny", messages: [question("Hello!")], ...body }),
    });
  return { engine, log, chat, health: () => fetch(`${listener.url}/health`) };
}

test("an engine that dies before the first token is 502, so that another one can be tried", async () => {
  for (const stream of [false, true]) {
    const { chat, health, log } = await serveOver("exits");
    expect(await readProblem(await chat({ stream }))).toMatchObject({
      status: 502,
      code: "upstream_error",
      retryAfter: "1",
    });
    expect((await health()).status).toBe(503);
    expect(await readProblem(await chat({ stream }))).toMatchObject({ status: 502 });
    expect(log).toContain("error request-ended");
  }
});

test("a stream whose first token takes long has its head and comments, and then one honest end", async () => {
  const { chat, engine } = await serveOver("is-deaf");
  const response = await chat({ stream: true });
  expect(response.status).toBe(200);
  let text = "";
  const reading = (async () => {
    for await (const chunk of response.body ?? []) text += Buffer.from(chunk).toString();
  })();
  await eventually("two comments came", () => /^(: keep-alive\n\n){2,}$/.test(text));
  await engine.close("The engine is shutting down");
  await reading;
  expect(text).toMatch(/^(: keep-alive\n\n)+event: error\ndata: \{.*"upstream_error"\}\}\n\n$/);
});

test("while the model loads requests are 503, and health says so", async () => {
  const { chat, health } = await serveOver("is-deaf", { isLoaded: false });
  expect((await health()).status).toBe(503);
  expect(await (await health()).json()).toEqual({ status: "loading" });
  expect(await readProblem(await chat({}))).toMatchObject({
    status: 503,
    code: "server_is_overloaded",
    retryAfter: "1",
  });
});

test("a draining engine is unhealthy and refuses", async () => {
  const { chat, engine, health } = await serveOver("is-deaf");
  expect((await health()).status).toBe(200);
  engine.drain();
  expect(await (await health()).json()).toEqual({ status: "draining" });
  expect(await readProblem(await chat({}))).toMatchObject({
    status: 503,
    code: "server_is_overloaded",
    retryAfter: "1",
  });
});
