import { type Context, type Handler, Hono } from "hono";
import type { ContentfulStatusCode } from "hono/utils/http-status";
import { ChatRequest } from "../../src/protocol/chat.ts";
import { CompletionRequest } from "../../src/protocol/completion.ts";
import { ERRORS, type Problem, retryHeaders, toErrorEnvelope } from "../../src/protocol/errors.ts";
import { ENGINE_USAGE_PATH } from "../../src/protocol/engine-usage.ts";
import { CLIENT_HEADERS } from "../../src/protocol/headers.ts";
import { KV_BLOCKS_PATH } from "../../src/protocol/kv-blocks.ts";
import {
  InertChatParameters,
  InertCompletionParameters,
} from "../../src/protocol/inert-parameters.ts";
import type { AppContext, EngineApp, EngineEnvironment } from "./app-context.ts";
import { authenticate } from "./authenticate.ts";
import { takeInChat } from "./chat-intake.ts";
import { takeInCompletion } from "./completion-intake.ts";
import { tellEndedUsage } from "./ended-usage-route.ts";
import { embedTexts } from "./embeddings-route.ts";
import { readRequestId } from "./engine-headers.ts";
import { generateText } from "./generation-route.ts";
import { lendKv } from "./kv-blocks-route.ts";
import { listModels, retrieveModel } from "./models-route.ts";
import { ProblemError } from "./problem-error.ts";
import { tokenize } from "./tokenize-route.ts";

const CHATS = { request: ChatRequest, inert: InertChatParameters };
const COMPLETIONS = { request: CompletionRequest, inert: InertCompletionParameters };

/** Builds the engine's HTTP surface. All but `/health` asks for the secret, if there is one. */
export function createApp(context: AppContext): EngineApp {
  const { engine, metrics, secret } = context;
  const app: EngineApp = new Hono();
  app.use(async (c, next) => {
    const requestId = readRequestId((name) => c.req.header(name));
    c.set("requestId", requestId);
    c.header(CLIENT_HEADERS.requestId, requestId);
    if (secret !== undefined && c.req.path !== "/health") {
      authenticate(c.req.header("authorization"), secret);
    }
    await next();
  });
  route(app, "POST", "/v1/chat/completions", generateText(context, CHATS, takeInChat));
  route(app, "POST", "/v1/completions", generateText(context, COMPLETIONS, takeInCompletion));
  route(app, "POST", "/v1/embeddings", embedTexts(context));
  route(app, "POST", "/v1/tokenize", tokenize(context));
  route(app, "POST", ENGINE_USAGE_PATH, tellEndedUsage(context));
  route(app, "POST", KV_BLOCKS_PATH, lendKv(context));
  route(app, "GET", "/v1/models", listModels(context));
  route(app, "GET", "/v1/models/:id{.+}", retrieveModel(context));
  route(app, "GET", "/health", (c) => {
    // The engine may serve a moment before the model's text side is there.
    const isReady = engine.condition !== "serving" || context.servedModel() !== undefined;
    const status = isReady ? engine.condition : "loading";
    return c.json({ status }, status === "serving" ? 200 : 503);
  });
  route(app, "GET", "/metrics", async (c) => {
    const { registry } = metrics;
    return c.body(await registry.metrics(), 200, { "content-type": registry.contentType });
  });
  app.notFound((c) => answerProblem(c, { code: "not_found" }));
  app.onError((error, c) => {
    if (error instanceof ProblemError) {
      metrics.errors.inc({ code: error.problem.code });
      return answerProblem(c, error.problem, error.headers);
    }
    // A request that broke off is no fault of ours, and nobody is there to read the answer.
    if (!c.env.outgoing.destroyed) {
      metrics.errors.inc({ code: "internal_error" });
      context.log("error", "request-broke", { requestId: c.get("requestId"), stack: error.stack });
    }
    return answerProblem(c, { code: "internal_error" });
  });
  return app;
}

/** Adds a route, and for its other methods the answer that says which one it has. */
function route(
  app: EngineApp,
  method: "GET" | "POST",
  path: string,
  handler: Handler<EngineEnvironment>,
): void {
  app.on(method, path, handler);
  const allow = method === "GET" ? "GET, HEAD" : method;
  app.all(path, () => {
    throw new ProblemError({ code: "method_not_allowed" }, { allow });
  });
}

function answerProblem(
  c: Context<EngineEnvironment>,
  problem: Problem,
  headers: Readonly<Record<string, string>> = {},
): Response {
  const status: ContentfulStatusCode = ERRORS[problem.code].status;
  return c.json(toErrorEnvelope(problem), status, { ...retryHeaders(problem), ...headers });
}
