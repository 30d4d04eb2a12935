import type { EngineAdapter } from "./engine-adapter.ts";
import { signalsOf } from "../protocol/engine-signals.ts";
import { readyOf } from "./read-answer.ts";

/**
 * Ollama (https://docs.ollama.com). It says nothing of its load, refuses by 503 above `OLLAMA_MAX_QUEUE`, and cuts the beginning
 * off a prompt that is longer than its context instead of refusing it. Tenants share its prompt cache.
 */
export const OLLAMA: EngineAdapter = {
  engine: "ollama",
  label: "Ollama",
  probePaths: ["/api/version"],
  readSignals: ([version]) => signalsOf({ isReady: readyOf(version) }),
  advice: [],
  isOverload: ({ status, message }) => status === 503 && message.includes("server busy"),
};
