import { assert, unreachable } from "../../../src/base/assert.ts";
import type { ConstraintSpec } from "../generate-request.ts";
import { anyOf, GrammarWriter, literal } from "./grammar-writer.ts";
import { anyObject } from "./json-grammar.ts";
import { addSchema } from "./schema-grammar.ts";
import {
  AFTER_ARGUMENTS,
  BEFORE_ARGUMENTS,
  BEFORE_NAME,
  TOOL_CALL_MARKER,
} from "./tool-call-format.ts";

/** Names that need no escape in JSON. */
const TOOL_NAME = /^[\w-]{1,64}$/;

type ToolCalls = Extract<ConstraintSpec, { kind: "tool-calls" }>;

/**
 * The grammar of what a constraint allows, in the library's EBNF. Equal constraints have equal
 * grammars. Throws a `SchemaFault` for a schema that `checkSchema` has something to say of.
 */
export function constraintGrammar(spec: ConstraintSpec): string {
  const writer = new GrammarWriter();
  switch (spec.kind) {
    case "json-object":
      return writer.toText(anyObject(writer));
    case "json-schema":
      return writer.toText(addSchema(writer, JSON.parse(spec.schema), "schema"));
    case "tool-calls":
      return writer.toText(toolCalls(writer, spec));
  }
  return unreachable(spec);
}

function toolCalls(writer: GrammarWriter, spec: ToolCalls): string {
  const bodies = spec.tools.map(({ name, schema }) => {
    assert(TOOL_NAME.test(name), "a tool's name was checked where it came in");
    const argumentsRule = argumentsGrammar(writer, JSON.parse(schema), name);
    const before = literal(BEFORE_NAME + name + BEFORE_ARGUMENTS);
    return `${before} ${argumentsRule} ${literal(AFTER_ARGUMENTS)}`;
  });
  const body = writer.rule(bodies.join(" | "));
  if (spec.demand === "optional") {
    // The library follows free text itself, so that a marker cut anywhere by tokens is one.
    const options = `stop_eos=true, loop_after_dispatch=${String(spec.isParallel)}`;
    return writer.rule(`TagDispatch((${literal(TOOL_CALL_MARKER)}, ${body}), ${options})`);
  }
  const call = writer.rule(`${literal(TOOL_CALL_MARKER)} ${body}`);
  if (!spec.isParallel) return call;
  const calls = writer.reserve();
  writer.define(calls, `${call} ${anyOf([calls, '""'])}`);
  return calls;
}

/** Arguments are an object, also where a schema without any keyword leaves that open. */
function argumentsGrammar(writer: GrammarWriter, schema: object, toolName: string): string {
  if (Object.keys(schema).length === 0) return anyObject(writer);
  return addSchema(writer, schema, `tools.${toolName}`);
}
