import * as z from "zod";
import type { Engine } from "../protocol/engine-kind.ts";
import type { ProbeAnswer } from "./engine-adapter.ts";
import { jsonOf } from "./read-answer.ts";

/**
 * What is asked of a server to learn which one it is, below its base URL. None of it costs the server work or
 * takes anything from others: SGLang's `/health` would, and TensorRT-LLM's `/metrics`.
 */
export const IDENTITY_PATHS = [
  "/v1/models",
  "/api/version",
  "/info",
  "/v1/loads",
  "/props",
] as const;

/** Answers by the path that was asked for. */
export type IdentityAnswers = ReadonlyMap<(typeof IDENTITY_PATHS)[number], ProbeAnswer>;

/** A model that a server offers. */
export interface OfferedModel {
  readonly modelId: string;
  /** Prompt and answer together; absent where nobody says. */
  readonly contextTokens?: number;
  /** Of an adapter the model that it is for. */
  readonly parentId?: string;
}

/** Which server it is, and what it offers. */
export interface EngineIdentity {
  /** `openai`: it has the API, and nothing more is known. `undefined`: not even that. */
  readonly engine: Engine | undefined;
  readonly models: readonly OfferedModel[];
}

const Length = z.int().positive().optional().catch(undefined);
const Models = z.object({
  data: z.array(
    z.object({
      id: z.string(),
      owned_by: z.string().optional().catch(undefined),
      parent: z.string().min(1).optional().catch(undefined),
      max_model_len: Length,
      context_length: Length,
      meta: z.object({ n_ctx: Length, n_ctx_train: Length }).optional().catch(undefined),
    }),
  ),
});
const OllamaVersion = z.object({ version: z.string() });
const TgiInfo = z.object({ model_id: z.string(), max_total_tokens: Length });
const Loads = z.object({ loads: z.array(z.unknown()) });
const Props = z.object({
  total_slots: z.number(),
  default_generation_settings: z.object({ n_ctx: Length }).optional().catch(undefined),
});

/** Who a server says owns its models, by its kind. */
const OWNERS: ReadonlyMap<string, Engine> = new Map([
  ["sluice", "sluice"],
  ["vllm", "vllm"],
  ["sglang", "sglang"],
  ["tensorrt_llm", "trtllm"],
  ["Triton Inference Server", "trtllm"],
  ["llamacpp", "llamacpp"],
  ["nvidia", "dynamo"],
]);

/** Tells by its answers which server it is. What only one kind has counts more than what it calls itself. */
export function identifyEngine(answers: IdentityAnswers): EngineIdentity {
  const listed = jsonOf(answers.get("/v1/models"), Models);
  const info = jsonOf(answers.get("/info"), TgiInfo);
  const props = jsonOf(answers.get("/props"), Props);
  // Of a model that is listed without its context these say it.
  const slotTokens = props?.default_generation_settings?.n_ctx ?? info?.max_total_tokens;
  const models = (listed?.data ?? []).map(({ id, parent, max_model_len, context_length, meta }) => {
    const contextTokens =
      max_model_len ?? context_length ?? slotTokens ?? meta?.n_ctx ?? meta?.n_ctx_train;
    return {
      modelId: id,
      ...(parent !== undefined && { parentId: parent }),
      ...(contextTokens !== undefined && { contextTokens }),
    };
  });
  return { engine: engineOf(answers, listed), models };
}

function engineOf(
  answers: IdentityAnswers,
  listed: z.output<typeof Models> | undefined,
): Engine | undefined {
  if (jsonOf(answers.get("/v1/loads"), Loads) !== undefined) return "sglang";
  if (jsonOf(answers.get("/props"), Props) !== undefined) return "llamacpp";
  if (jsonOf(answers.get("/info"), TgiInfo) !== undefined) return "tgi";
  if (jsonOf(answers.get("/api/version"), OllamaVersion) !== undefined) return "ollama";
  if (listed === undefined) return undefined;
  const owners = listed.data.flatMap(({ owned_by: owner }) => OWNERS.get(owner ?? "") ?? []);
  return owners[0] ?? "openai";
}
