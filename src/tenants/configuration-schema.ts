import * as z from "zod";
import { ConfigurationFile } from "./configuration-file.ts";

/**
 * Describes `sluice.yaml` to an editor as JSON Schema, draft 2020-12, made of the very schema that the file
 * is read by. It takes whatever that takes, and more: names that point nowhere, or what only together is
 * wrong, `sluice check` tells.
 */
export function configurationSchema(): Readonly<Record<string, unknown>> {
  return { title: "sluice.yaml", ...toEditorSchema(ConfigurationFile) };
}

function toEditorSchema(schema: z.core.$ZodType): z.core.JSONSchema.BaseSchema {
  return z.toJSONSchema(schema, {
    io: "input",
    unrepresentable: "any",
    override: ({ zodSchema, jsonSchema }) => {
      // A Map is what a mapping with names of the writer's choice becomes.
      if (!(zodSchema instanceof z.ZodMap)) return;
      jsonSchema.type = "object";
      jsonSchema.propertyNames = toInnerSchema(zodSchema.keyType);
      jsonSchema.additionalProperties = toInnerSchema(zodSchema.valueType);
    },
  });
}

function toInnerSchema(schema: z.core.$ZodType): z.core.JSONSchema.BaseSchema {
  const inner = toEditorSchema(schema);
  delete inner.$schema;
  return inner;
}
