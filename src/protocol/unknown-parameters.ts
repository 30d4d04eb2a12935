import type * as z from "zod";

/** A body can hold thousands of unknown parameters; the rest of them is not listed. */
export const UNKNOWN_PARAMETERS_MAX = 32;

/** What one route of the API takes. */
export interface RequestSchemas<Schema extends z.ZodObject> {
  readonly request: Schema;
  /** Parameters that are checked and then without effect. */
  readonly inert: z.ZodObject;
}

/** Names of a body's parameters that the API does not have, as many as are listed at most. */
export function unknownParameters(
  { request, inert }: RequestSchemas<z.ZodObject>,
  body: Readonly<Record<string, unknown>>,
): readonly string[] {
  return Object.keys(body)
    .filter((name) => !Object.hasOwn(request.shape, name))
    .filter((name) => !Object.hasOwn(inert.shape, name))
    .slice(0, UNKNOWN_PARAMETERS_MAX);
}
