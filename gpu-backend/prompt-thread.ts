import { type MessagePort, parentPort, workerData } from "node:worker_threads";
import { assert } from "../src/base/assert.ts";
import { loadChatTemplate } from "./engine/tokenizer/chat-template.ts";
import { encodePrompt } from "./engine/tokenizer/encode-prompt.ts";
import { loadTokenizer } from "./engine/tokenizer/tokenizer.ts";
import type { PromptAnswer, PromptQuestion, PromptThreadOptions } from "./prompt-encoder.ts";

const options: PromptThreadOptions = workerData;
const port = ownPort();

// Long texts take the tokenizer a part of a second, in which the main thread must go on serving.
const tokenizer = await loadTokenizer(options.modelDirectory);
const { contextTokens } = options;
const chatTemplate = await loadChatTemplate(options.modelDirectory, { tokenizer, contextTokens });

port.on("message", ({ id, input }: PromptQuestion) => {
  const answer: PromptAnswer = {
    id,
    prompt: encodePrompt({ tokenizer, chatTemplate, contextTokens }, input),
  };
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread has no origin
  port.postMessage(answer);
});

function ownPort(): MessagePort {
  assert(parentPort !== null, "this is the program of a thread");
  return parentPort;
}
