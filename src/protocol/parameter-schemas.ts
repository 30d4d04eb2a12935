import * as z from "zod";
import { faultOf } from "./validation.ts";

/** A parameter that may be absent; `null` equals absent everywhere in the API. */
export function optional<Schema extends z.ZodType>(schema: Schema) {
  const nullAsAbsent = z
    .nullish(schema)
    .transform((value): z.output<Schema> | undefined => value ?? undefined);
  // A transform alone would make the key a required one in the type of the output.
  return nullAsAbsent.optional();
}

/** A parameter with a value of its own where the client says nothing. */
export function withDefault<Schema extends z.ZodType>(schema: Schema, value: z.output<Schema>) {
  return optional(schema).transform((given) => given ?? value);
}

/** An integer between two bounds, both allowed; `max` is left out where only storage limits it. */
export function integerWithin(min: number, max = Number.MAX_SAFE_INTEGER) {
  return z
    .int()
    .refine((value) => value >= min, faultOf("integer_below_min_value", `at least ${min}`))
    .refine((value) => value <= max, faultOf("integer_above_max_value", `at most ${max}`));
}

/** A finite number between two bounds, both allowed. */
export function decimalWithin(min: number, max: number) {
  return z
    .number()
    .refine((value) => value >= min, faultOf("decimal_below_min_value", `at least ${min}`))
    .refine((value) => value <= max, faultOf("decimal_above_max_value", `at most ${max}`));
}

/**
 * A parameter that would change the output in a way the engine cannot: its neutral values pass,
 * every other one is `unsupported_parameter`. `expected` names the neutral value.
 */
export function onlyNeutral<Value>(
  schema: z.ZodType<Value>,
  isNeutral: (value: Value) => boolean,
  expected: string,
) {
  const fault = faultOf("unsupported_parameter", `${expected}, as nothing else is supported`);
  return optional(schema.refine(isNeutral, fault));
}
