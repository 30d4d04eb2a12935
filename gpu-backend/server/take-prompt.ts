import type { TextInput } from "../../src/protocol/text-input.ts";
import type { PromptInput } from "../engine/tokenizer/encode-prompt.ts";
import { contextLengthExceeded, type EncodedPrompt } from "../engine/tokenizer/prompt-limit.ts";
import type { ServedModel } from "./app-context.ts";
import { requireTokenId } from "./generation.ts";
import { ProblemError } from "./problem-error.ts";

/** Encodes a conversation or a text. Throws the problem of one that cannot be a prompt. */
export async function takePrompt(
  model: ServedModel,
  input: PromptInput,
): Promise<readonly number[]> {
  const prompt: EncodedPrompt = await model.prompts.encode(input);
  if (prompt.kind === "refused") throw new ProblemError(prompt.problem);
  return prompt.promptTokens;
}

/**
 * Returns the tokens of each input: those of a text as the model wants them, and token ids as
 * they are. Throws the problem of the first that cannot be a prompt.
 */
export async function takeTexts(
  model: ServedModel,
  inputs: readonly TextInput[],
  param: string,
): Promise<readonly (readonly number[])[]> {
  const prompts: (readonly number[])[] = [];
  // One after the other: together they would be one large piece of work.
  for (const [index, input] of inputs.entries()) {
    const path = inputs.length === 1 ? param : `${param}[${index}]`;
    if (input.kind === "text") {
      prompts.push(await takePrompt(model, { kind: "text", text: input.text, param: path }));
    } else {
      prompts.push(takeTokenIds(model, input.tokenIds, path));
    }
  }
  return prompts;
}

function takeTokenIds(
  model: ServedModel,
  tokenIds: readonly number[],
  param: string,
): readonly number[] {
  const { contextTokens } = model;
  if (tokenIds.length >= contextTokens) {
    const promptTokens = tokenIds.length;
    const prompt = { contextTokens, promptTokens, isLowerBound: false, param };
    throw new ProblemError(contextLengthExceeded(prompt));
  }
  for (const tokenId of tokenIds) requireTokenId(model, tokenId, param);
  return tokenIds;
}
