import { assert } from "../../src/base/assert.ts";
import type { GenerateRequest } from "./generate-request.ts";

/** Throws unless a request asks for something that can be computed; whoever made it is to see to that. */
export function checkGenerateRequest(request: GenerateRequest): void {
  const { promptTokens, outputTokensMax, promptLogprobsTop, pooling, adapter } = request;
  const { emittedTokens = [], prefillOnly } = request;
  assert(promptTokens.length > 0, "A prompt has at least one token");
  const looksAtPrompt = promptLogprobsTop !== undefined || pooling !== undefined;
  assert(outputTokensMax > 0 || looksAtPrompt, "A request asks for at least one token");
  assert(outputTokensMax === 0 || pooling === undefined, "A pooled prompt has no output");
  assert(promptLogprobsTop === undefined || pooling === undefined, "A prompt is scored or pooled");
  assert(
    emittedTokens.length === 0 || emittedTokens.length < outputTokensMax,
    "An output that goes on has a token left",
  );
  assert(
    emittedTokens.length === 0 || !looksAtPrompt,
    "Who goes on has looked at its prompt before",
  );
  assert(prefillOnly !== true || !looksAtPrompt, "Who looks at its prompt hits nothing of it");
  assert(adapter !== "", "An adapter has a name");
}
