import { DYNAMO } from "./dynamo.ts";
import type { EngineAdapter } from "./engine-adapter.ts";
import type { ForeignEngine } from "../protocol/engine-kind.ts";
import { LLAMA_CPP } from "./llama-cpp.ts";
import { OLLAMA } from "./ollama.ts";
import { OPENAI } from "./openai.ts";
import { SGLANG } from "./sglang.ts";
import { TGI } from "./tgi.ts";
import { TRTLLM } from "./trtllm.ts";
import { VLLM } from "./vllm.ts";

/** What is known of each kind of server. */
export const ADAPTERS: Readonly<Record<ForeignEngine, EngineAdapter>> = {
  vllm: VLLM,
  sglang: SGLANG,
  trtllm: TRTLLM,
  tgi: TGI,
  llamacpp: LLAMA_CPP,
  dynamo: DYNAMO,
  ollama: OLLAMA,
  openai: OPENAI,
};
