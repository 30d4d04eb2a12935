import * as z from "zod";
import type { EngineAdapter, ProbeAnswer } from "./engine-adapter.ts";
import { boundedNames } from "./model-names.ts";
import { signalsOf } from "../protocol/engine-signals.ts";
import { jsonOf, readyOf } from "./read-answer.ts";

/** Who names no tag means this one. */
const USUAL_TAG = ":latest";
const Tags = z.object({ models: z.array(z.object({ name: z.string() })) });

/**
 * Ollama (https://docs.ollama.com). It says nothing of its load, refuses by 503 above `OLLAMA_MAX_QUEUE`, and cuts the beginning
 * off a prompt that is longer than its context instead of refusing it. Tenants share its prompt cache.
 */
export const OLLAMA: EngineAdapter = {
  engine: "ollama",
  label: "Ollama",
  probePaths: ["/api/version"],
  readSignals: ([version]) => signalsOf({ isReady: readyOf(version) }),
  models: { path: "/api/tags", readNames: taggedNames },
  advice: [],
  endsWhenLeft: true,
  keepsNamespaces: false,
  withheldMembers: [],
  isOverload: ({ status, message }) => status === 503 && message.includes("server busy"),
};

function taggedNames(answer: ProbeAnswer): readonly string[] | undefined {
  return boundedNames(
    jsonOf(answer, Tags)?.models.flatMap(({ name }) =>
      name.endsWith(USUAL_TAG) ? [name, name.slice(0, -USUAL_TAG.length)] : [name],
    ),
  );
}
