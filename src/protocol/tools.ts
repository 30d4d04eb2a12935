import * as z from "zod";
import { optional } from "./parameter-schemas.ts";
import { faultOf } from "./validation.ts";

/** Bounds the prompt that lists the tools, and the grammar that allows them. */
export const TOOLS_MAX = 128;

const FUNCTION_NAME = /^[\w-]{1,64}$/;

const FunctionName = z
  .string()
  .refine(
    (name) => FUNCTION_NAME.test(name),
    faultOf("invalid_value", "1 to 64 letters, digits, '_' and '-'"),
  );

const FunctionType = z
  .string()
  .refine(
    (type) => type === "function",
    faultOf("unsupported_value", '"function"', { isEchoed: true }),
  );

/** A function that the model may call; its parameters are a JSON Schema. */
export const Tool = z.object({
  type: FunctionType,
  function: z.object({
    name: FunctionName,
    description: optional(z.string()),
    parameters: optional(z.record(z.string(), z.unknown())),
    strict: optional(z.boolean()),
  }),
});
export type Tool = z.infer<typeof Tool>;

const NamedTool = z.object({ type: FunctionType, function: z.object({ name: FunctionName }) });

/** Whether tools may be called, must be, and which of them. */
export const ToolChoice = z.union([
  z.enum(["none", "auto", "required"]),
  z.object({ type: z.literal("function"), function: z.object({ name: FunctionName }) }),
  z.object({
    type: z.literal("allowed_tools"),
    allowed_tools: z.object({
      mode: z.enum(["auto", "required"]),
      tools: z.array(NamedTool).min(1).max(TOOLS_MAX),
    }),
  }),
]);
export type ToolChoice = z.infer<typeof ToolChoice>;

/** What a request says of tools. */
interface ToolParameters {
  readonly tools?: readonly Tool[] | undefined;
  readonly tool_choice?: ToolChoice | undefined;
  readonly response_format: { readonly type: string };
}

/** The calls that an answer may hold, or must. */
export interface ToolDemand {
  /** Those that may be called. */
  readonly tools: readonly Tool[];
  /** `optional`: text or calls; `required`: at least one call. */
  readonly demand: "optional" | "required";
  /** One certain tool is wanted, and that means once. */
  readonly isNamed: boolean;
}

/** Returns which calls a valid request wants; undefined for none. */
export function toolDemandOf(request: ToolParameters): ToolDemand | undefined {
  const { tools, tool_choice: choice = "auto" } = request;
  if (tools === undefined || choice === "none") return undefined;
  if (choice === "auto") return { tools, demand: "optional", isNamed: false };
  const names = namesOf(choice);
  return {
    tools: tools.filter((tool) => names === undefined || names.has(tool.function.name)),
    demand: isOptional(choice) ? "optional" : "required",
    isNamed: typeof choice !== "string" && choice.type === "function",
  };
}

/** Says what is wrong with a request's tools taken together, as an issue of its schema. */
export function faultOfToolChoice(request: ToolParameters) {
  const { tools, tool_choice: choice, response_format: format } = request;
  if (tools === undefined) {
    return choice === undefined || choice === "none"
      ? undefined
      : issueOf("tool_choice", "invalid_value", "absent unless there are 'tools'");
  }
  const names = tools.map((tool) => tool.function.name);
  if (new Set(names).size < names.length) {
    return issueOf("tools", "invalid_value", "tools of different names");
  }
  const known = new Set(names);
  if (choice !== undefined && [...(namesOf(choice) ?? [])].some((name) => !known.has(name))) {
    return issueOf("tool_choice", "invalid_value", "the name of one of 'tools'");
  }
  if (format.type !== "text" && choice !== "none") {
    return issueOf("response_format", "unsupported_parameter", "of type \"text\" beside 'tools'");
  }
  return undefined;
}

/** The names that a choice allows; undefined if it allows all. */
function namesOf(choice: ToolChoice): ReadonlySet<string> | undefined {
  if (typeof choice === "string") return undefined;
  if (choice.type === "function") return new Set([choice.function.name]);
  return new Set(choice.allowed_tools.tools.map((tool) => tool.function.name));
}

function isOptional(choice: ToolChoice): boolean {
  return (
    typeof choice !== "string" &&
    choice.type === "allowed_tools" &&
    choice.allowed_tools.mode === "auto"
  );
}

function issueOf(param: string, code: Parameters<typeof faultOf>[0], expected: string) {
  const { error: message, params } = faultOf(code, expected);
  return { code: "custom" as const, message, params, path: [param] };
}
