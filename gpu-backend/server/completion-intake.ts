import type { CompletionRequest } from "../../src/protocol/completion.ts";
import type { TextInput } from "../../src/protocol/text-input.ts";
import type { AppContext, ServedModel } from "./app-context.ts";
import { CompletionFormat, type EchoedPrompt } from "./completion-format.ts";
import { decodeTokens } from "./decode-tokens.ts";
import { type Generation, generateRequests, newIdentity } from "./generation.ts";
import { requireModel } from "./models-route.ts";
import type { Arrival } from "./read-request.ts";
import { takeTexts } from "./take-prompt.ts";

/** Makes a completion into requests for the engine. Throws the problem of what is wrong with it. */
export async function takeInCompletion(
  context: AppContext,
  request: CompletionRequest,
  arrival: Arrival,
): Promise<Generation> {
  const model = requireModel(context, request.model);
  const prompts = await takeTexts(model, request.prompt, "prompt");
  const identity = newIdentity(model, "cmpl");
  // Without output the engine has to be asked for something.
  const scoresPrompt = request.echo && (request.logprobs !== undefined || request.max_tokens === 0);
  const requests = generateRequests(context, model, {
    id: identity.id,
    parameters: request,
    prompts: prompts.map((promptTokens) => ({
      promptTokens,
      outputTokensMax: request.max_tokens,
      ...(request.logprobs !== undefined && { logprobsTop: request.logprobs }),
      ...(scoresPrompt && { promptLogprobsTop: request.logprobs ?? 0 }),
    })),
    arrival,
  });
  const echoes = request.echo
    ? prompts.map((tokenIds, index) => echoOf(model, request.prompt[index], tokenIds))
    : [];
  const format = new CompletionFormat({
    identity,
    model,
    includesUsage: request.stream_options?.include_usage === true,
    includesLogprobs: request.logprobs !== undefined,
    echoOf: (choice) => echoes[Math.floor(choice / request.n)],
  });
  return {
    model,
    identity,
    requests,
    choicesPerPrompt: request.n,
    parameters: request,
    operation: "text_completion",
    promptParam: "prompt",
    format,
    mayBeContinued: requests.length === 1 && !request.echo,
  };
}

/** A text is echoed as it was written, whatever the tokenizer made of it. */
function echoOf(
  model: ServedModel,
  input: TextInput | undefined,
  tokenIds: readonly number[],
): EchoedPrompt {
  const text = input?.kind === "text" ? input.text : decodeTokens(model.tokenBytes, tokenIds);
  return { text, tokenIds };
}
