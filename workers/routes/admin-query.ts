import * as z from "zod";
import { faultOf, validate } from "../../src/protocol/validation.ts";
import { NAME_NOTATION, parseName } from "../../src/tenants/name.ts";
import { orThrow } from "../json-body.ts";

/** Things on one page of a list. */
const PAGE_MAX = 1_000;

const digits = z.string().regex(/^\d{1,15}$/);

/** A number in a query, up to a bound that is allowed. */
export function numberInQuery(max: number) {
  return digits.transform(Number).pipe(z.int().min(0).max(max));
}

/** How many things are asked for; as many as there may be when nothing is said. */
export function limitInQuery(max: number) {
  return digits.transform(Number).pipe(z.int().min(1).max(max)).default(max);
}

/** A page of a list in the order of names: those behind one. */
export const NamePage = z.strictObject({
  after: z.string().max(64).default(""),
  limit: limitInQuery(PAGE_MAX),
});

/** A page of a list in the order of numbers, newest first: those before one. */
export const NumberPage = z.strictObject({
  before: numberInQuery(Number.MAX_SAFE_INTEGER).default(Number.MAX_SAFE_INTEGER),
  limit: limitInQuery(PAGE_MAX),
});

/** A name that is given to something, as `sluice.yaml` would have it. */
export const NewName = z
  .string()
  .refine((name) => parseName(name) !== undefined, faultOf("invalid_value", NAME_NOTATION));

/** Reads a query, or throws what is wrong with it. */
export function readQuery<Schema extends z.ZodType>(
  schema: Schema,
  query: Readonly<Record<string, string>>,
): z.output<Schema> {
  return orThrow(validate(schema, query));
}
