import type * as z from "zod";
import { validate } from "../../src/protocol/validation.ts";
import { orThrow } from "../json-body.ts";

/** Reads a query, or throws what is wrong with it. */
export function readQuery<Schema extends z.ZodType>(
  schema: Schema,
  query: Readonly<Record<string, string>>,
): z.output<Schema> {
  return orThrow(validate(schema, query));
}
