import type * as z from "zod";
import type { Problem } from "./errors.ts";
import type { RequestSchemas } from "./unknown-parameters.ts";
import { unknownParameters } from "./unknown-parameters.ts";
import { validate } from "./validation.ts";

/** A request that the engine can serve, or what is wrong with it. */
export type ParsedRequest<Request> =
  | {
      readonly kind: "valid";
      readonly request: Request;
      /** Names of parameters the API does not have, for the metric that counts them. */
      readonly unknownParameters: readonly string[];
    }
  | { readonly kind: "invalid"; readonly problem: Problem };

/**
 * The engine's whole check of a body: every parameter of the API is of the right type, and none
 * asks for what the engine cannot do. Parameters the API does not have are listed, not refused,
 * because clients send many.
 */
export function parseRequest<Schema extends z.ZodObject>(
  schemas: RequestSchemas<Schema>,
  body: Readonly<Record<string, unknown>>,
): ParsedRequest<z.output<Schema>> {
  const parsed = validate(schemas.request, body);
  if (parsed.kind === "invalid") return parsed;
  const inert = validate(schemas.inert, body);
  if (inert.kind === "invalid") return inert;
  return {
    kind: "valid",
    request: parsed.value,
    unknownParameters: unknownParameters(schemas, body),
  };
}
