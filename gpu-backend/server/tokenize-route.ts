import type { Handler } from "hono";
import { InertCompletionParameters } from "../../src/protocol/inert-parameters.ts";
import { type TokenizeAnswer, TokenizeRequest } from "../../src/protocol/tokenize.ts";
import type { AppContext, EngineEnvironment } from "./app-context.ts";
import { requireModel } from "./models-route.ts";
import { readRequest } from "./read-request.ts";
import { takePrompt } from "./take-prompt.ts";

const SCHEMAS = { request: TokenizeRequest, inert: InertCompletionParameters };

/** Answers with the tokens that a text or a conversation would have as a prompt. */
export function tokenize(context: AppContext): Handler<EngineEnvironment> {
  return async (c) =>
    readRequest(context, c, SCHEMAS, async ({ model: name, messages, tools = [], prompt = "" }) => {
      const model = requireModel(context, name);
      const tokens = await takePrompt(
        model,
        messages === undefined
          ? { kind: "text", text: prompt, param: "prompt" }
          : { kind: "chat", messages, tools },
      );
      const answer: TokenizeAnswer = {
        count: tokens.length,
        max_model_len: model.contextTokens,
        tokens,
      };
      return c.json(answer);
    });
}
