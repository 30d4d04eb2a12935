import { type ChatRequest, requestedOutputTokensMax } from "../../src/protocol/chat.ts";
import type { AppContext } from "./app-context.ts";
import { chatConstraint } from "./chat-constraint.ts";
import { ChatFormat } from "./chat-format.ts";
import { type Generation, generateRequests, newIdentity } from "./generation.ts";
import { requireModel } from "./models-route.ts";
import type { Arrival } from "./read-request.ts";
import { takePrompt } from "./take-prompt.ts";

/** Makes a chat into requests for the engine. Throws the problem of what is wrong with it. */
export async function takeInChat(
  context: AppContext,
  chat: ChatRequest,
  arrival: Arrival,
): Promise<Generation> {
  const model = requireModel(context, chat.model);
  const constraint = chatConstraint(chat);
  // A model that must not call tools had better not know of them.
  const tools = chat.tool_choice === "none" ? [] : (chat.tools ?? []);
  const promptTokens = await takePrompt(model, { kind: "chat", messages: chat.messages, tools });
  const identity = newIdentity(model, "chatcmpl");
  const requests = generateRequests(context, model, {
    id: identity.id,
    parameters: chat,
    prompts: [
      {
        promptTokens,
        outputTokensMax: requestedOutputTokensMax(chat),
        ...(chat.logprobs && { logprobsTop: chat.top_logprobs }),
        ...(constraint && { constraint }),
      },
    ],
    arrival,
  });
  const format = new ChatFormat({
    identity,
    labels: model.tokenLabels,
    includesUsage: chat.stream_options?.include_usage === true,
    includesLogprobs: chat.logprobs,
    mayCallTools: constraint?.kind === "tool-calls",
  });
  return {
    model,
    identity,
    requests,
    choicesPerPrompt: chat.n,
    parameters: chat,
    operation: "chat",
    promptParam: "messages",
    format,
    mayBeContinued: requests.length === 1,
  };
}
