import type { EngineAdapter } from "./engine-adapter.ts";

/** Any server with the OpenAI API. Nothing of it is known but what requests show, and their heads. */
export const OPENAI: EngineAdapter = {
  engine: "openai",
  label: "a server with the OpenAI API",
  probePaths: [],
  readSignals: () => ({}),
  advice: [],
  // Nobody says so of all of them, and many charge for what they have begun.
  endsWhenLeft: false,
  holdOffMs: 1_000,
};
