import type { EngineAdapter } from "./engine-adapter.ts";

/** Any server with the OpenAI API. Nothing of it is known but what requests show, and their heads. */
export const OPENAI: EngineAdapter = {
  engine: "openai",
  label: "a server with the OpenAI API",
  probePaths: [],
  readSignals: () => ({}),
  advice: [],
  holdOffMs: 1_000,
};
