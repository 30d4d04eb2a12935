import type { Context, Handler } from "hono";
import { type ModelCard, modelCard, type ModelList } from "../../src/protocol/model-card.ts";
import type { AppContext, EngineEnvironment, ServedModel } from "./app-context.ts";
import { ProblemError } from "./problem-error.ts";

const RETRY_WHILE_LOADING_MS = 1000;

/** Answers with the one model that is served. */
export function listModels(context: AppContext): Handler<EngineEnvironment> {
  return (c) => {
    const list: ModelList = { object: "list", data: [cardOf(requireModel(context))] };
    return c.json(list);
  };
}

/** Answers with the model named in the path, where a slash may be written `%2F`. */
export function retrieveModel(
  context: AppContext,
): (c: Context<EngineEnvironment, "/v1/models/:id{.+}">) => Response {
  return (c) => c.json(cardOf(requireModel(context, c.req.param("id"))));
}

/**
 * Returns the served model. Throws 404 if another one is asked for, and 503 while it is loading.
 */
export function requireModel(context: AppContext, name?: string): ServedModel {
  const model = context.servedModel();
  if (model === undefined) {
    const message = "The engine is loading its model";
    throw new ProblemError({
      code: "server_is_overloaded",
      message,
      retryAfterMs: RETRY_WHILE_LOADING_MS,
    });
  }
  if (name === undefined || name === model.name) return model;
  const message = `This engine serves the model '${model.name}' and no other`;
  throw new ProblemError({ code: "model_not_found", message, param: "model" });
}

function cardOf(model: ServedModel): ModelCard {
  return modelCard({
    id: model.name,
    createdAtSeconds: model.createdAtSeconds,
    ownedBy: "sluice",
    contextTokens: model.contextTokens,
  });
}
