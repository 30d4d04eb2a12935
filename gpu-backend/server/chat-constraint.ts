import type { ChatRequest } from "../../src/protocol/chat.ts";
import { type Tool, toolDemandOf } from "../../src/protocol/tools.ts";
import type { ConstraintSpec } from "../engine/generate-request.ts";
import { checkSchema } from "../engine/structured/schema-grammar.ts";
import { ProblemError } from "./problem-error.ts";

/** A function without parameters is called with none. */
const NO_PARAMETERS = { type: "object", properties: {}, additionalProperties: false };

/**
 * What the answer to a chat must be: the JSON of its format, or the calls that its tools allow;
 * undefined for free text. Throws the problem of a schema that cannot be kept.
 */
export function chatConstraint(chat: ChatRequest): ConstraintSpec | undefined {
  const format = chat.response_format;
  if (format.type === "json_object") return { kind: "json-object" };
  if (format.type === "json_schema") {
    const { schema } = format.json_schema;
    requireSchema(schema, "response_format.json_schema.schema");
    return { kind: "json-schema", schema: JSON.stringify(schema) };
  }
  const demand = toolDemandOf(chat);
  if (demand === undefined) return undefined;
  for (const [index, tool] of (chat.tools ?? []).entries()) {
    requireSchema(parametersOf(tool), `tools[${index}].function.parameters`);
  }
  return {
    kind: "tool-calls",
    tools: demand.tools.map((tool) => ({
      name: tool.function.name,
      schema: JSON.stringify(parametersOf(tool)),
    })),
    demand: demand.demand,
    isParallel: chat.parallel_tool_calls && !demand.isNamed,
  };
}

function parametersOf({ function: { parameters } }: Tool): Readonly<Record<string, unknown>> {
  return parameters ?? NO_PARAMETERS;
}

function requireSchema(schema: unknown, param: string): void {
  const problem = checkSchema(schema, param);
  if (problem !== undefined) throw new ProblemError(problem);
}
