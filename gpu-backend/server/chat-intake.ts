import { randomBytes, randomInt } from "node:crypto";
import { type ChatRequest, requestedOutputTokensMax } from "../../src/protocol/chat.ts";
import { parseJsonObject } from "../../src/protocol/json-object.ts";
import { parseChatRequest } from "../../src/protocol/parse-chat-request.ts";
import type { GenerateRequest } from "../engine/generate-request.ts";
import type { AppContext, ServedModel } from "./app-context.ts";
import type { EngineHeaders } from "./engine-headers.ts";
import { requireModel } from "./models-route.ts";
import { ProblemError } from "./problem-error.ts";

/** A chat request as far as the engine's door. */
export interface Intake {
  readonly chat: ChatRequest;
  readonly model: ServedModel;
  readonly request: GenerateRequest;
}

/** The namespace of requests without a salt, where the engine takes such. No salt is empty. */
const LOCAL_SALT = "";
/** Whose blocks they are where no gateway says it. */
const LOCAL_TENANT = "";
/** As many as `randomInt` can tell apart. */
const RANDOM_SEEDS = 2 ** 48 - 1;

/**
 * Makes a body and the gateway's headers into a request for the engine. Throws the problem of the
 * first thing that is wrong with them.
 */
export function takeIn(
  context: AppContext,
  input: { readonly body: string; readonly headers: EngineHeaders; readonly arrivedAtMs: number },
): Intake {
  const { headers } = input;
  const chat = parseBody(context, input.body);
  const model = requireModel(context, chat.model);
  if (headers.cacheSalt === undefined && context.requireSalt) {
    throw new ProblemError({ code: "missing_cache_salt" });
  }
  const prompt = model.chatTemplate.encode(chat.messages);
  if (prompt.kind === "refused") throw new ProblemError(prompt.problem);
  const { promptTokens } = prompt;
  const tokensLeft = model.contextTokens - promptTokens.length;
  const { firstTokenBudgetMs, tbtTargetMs } = headers;
  const request: GenerateRequest = {
    id: `chatcmpl-${randomBytes(16).toString("hex")}`,
    promptTokens,
    outputTokensMax: Math.min(requestedOutputTokensMax(chat) ?? tokensLeft, tokensLeft),
    outputTokensMin: 0,
    sampling: {
      temperature: chat.temperature,
      topK: chat.top_k,
      topP: chat.top_p,
      minP: 0,
      seed: chat.seed ?? randomInt(RANDOM_SEEDS),
      repetitionPenalty: 1,
      frequencyPenalty: 0,
      presencePenalty: 0,
      logitBias: [],
    },
    tenant: LOCAL_TENANT,
    priority: 0,
    stopTokenIds: model.endTokenIds,
    cacheSalt: headers.cacheSalt ?? LOCAL_SALT,
    ...(firstTokenBudgetMs !== undefined && {
      firstTokenDeadlineAtMs: input.arrivedAtMs + firstTokenBudgetMs,
    }),
    ...(tbtTargetMs !== undefined && { tbtTargetMs }),
  };
  return { chat, model, request };
}

function parseBody(context: AppContext, text: string): ChatRequest {
  const body = parseJsonObject(text);
  if (body.kind === "invalid") throw new ProblemError(body.problem);
  const parsed = parseChatRequest(body.value);
  if (parsed.kind === "invalid") throw new ProblemError(parsed.problem);
  context.metrics.unknownParameters.inc(parsed.unknownParameters.length);
  return parsed.request;
}
