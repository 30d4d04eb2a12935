import { DYNAMO } from "./dynamo.ts";
import type { EngineAdapter } from "./engine-adapter.ts";
import { LLAMA_CPP } from "./llama-cpp.ts";
import { SGLANG } from "./sglang.ts";
import { TRTLLM } from "./trtllm.ts";
import { VLLM } from "./vllm.ts";

/** Any server with the OpenAI API. Nothing of it is known but what requests show, and their heads. */
export const OPENAI: EngineAdapter = {
  engine: "openai",
  label: "a server with the OpenAI API",
  probePaths: [],
  readSignals: () => ({}),
  advice: [],
  // Nobody says so of all of them, and many charge for what they have begun.
  endsWhenLeft: false,
  keepsNamespaces: false,
  // It may be any of the others.
  withheldMembers: [VLLM, SGLANG, TRTLLM, LLAMA_CPP, DYNAMO].flatMap(
    ({ withheldMembers }) => withheldMembers,
  ),
  holdOffMs: 1_000,
};
