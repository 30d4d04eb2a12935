import { ChatRequest } from "./chat.ts";
import type { Problem } from "./errors.ts";
import { InertParameters } from "./inert-parameters.ts";
import { validate } from "./validation.ts";

/** A body can hold thousands of unknown parameters; the rest of them is not listed. */
export const UNKNOWN_PARAMETERS_MAX = 32;

/** A chat request that the engine can serve, or what is wrong with it. */
export type ParsedChatRequest =
  | {
      readonly kind: "valid";
      readonly request: ChatRequest;
      /** Names of parameters the API does not have, for the metric that counts them. */
      readonly unknownParameters: readonly string[];
    }
  | { readonly kind: "invalid"; readonly problem: Problem };

/**
 * The engine's whole check of a body: every parameter of the API is of the right type, and none
 * asks for what the engine cannot do. Parameters the API does not have are listed, not refused,
 * because clients send many.
 */
export function parseChatRequest(body: Readonly<Record<string, unknown>>): ParsedChatRequest {
  const parsed = validate(ChatRequest, body);
  if (parsed.kind === "invalid") return parsed;
  const inert = validate(InertParameters, body);
  if (inert.kind === "invalid") return inert;
  const unknownParameters = Object.keys(body)
    .filter((name) => !Object.hasOwn(ChatRequest.shape, name))
    .filter((name) => !Object.hasOwn(InertParameters.shape, name))
    .slice(0, UNKNOWN_PARAMETERS_MAX);
  return { kind: "valid", request: parsed.value, unknownParameters };
}
