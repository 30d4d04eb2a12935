import * as z from "zod";
import { optional } from "./parameter-schemas.ts";

const NAME_CHARACTERS_MAX = 64;

/** What the text of an answer must be. Whether a schema can be followed is the engine's to say. */
export const ResponseFormat = z.discriminatedUnion("type", [
  z.object({ type: z.literal("text") }),
  z.object({ type: z.literal("json_object") }),
  z.object({
    type: z.literal("json_schema"),
    json_schema: z.object({
      name: z.string().min(1).max(NAME_CHARACTERS_MAX),
      description: optional(z.string()),
      schema: z.record(z.string(), z.unknown()),
      // The answer follows the schema with `strict: false` as well.
      strict: optional(z.boolean()),
    }),
  }),
]);
export type ResponseFormat = z.infer<typeof ResponseFormat>;
