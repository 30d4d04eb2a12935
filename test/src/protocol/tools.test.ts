import { describe, expect, test } from "vitest";
import { ChatRequest } from "../../../src/protocol/chat.ts";
import { toolDemandOf } from "../../../src/protocol/tools.ts";
import { validate } from "../../../src/protocol/validation.ts";

const aTool = (name: string, extra: object = {}) => ({
  type: "function",
  function: { name, parameters: { type: "object" }, ...extra },
});
const BODY = {
  model: "sluice-tiny",
  messages: [{ role: "user", content: "Hello!" }],
  tools: [aTool("look"), aTool("ask")],
};
const named = (name: string) => ({ type: "function", function: { name } });
const allowed = (mode: string, ...names: string[]) => ({
  type: "allowed_tools",
  allowed_tools: { mode, tools: names.map(named) },
});

function demandOf(extra: object) {
  const validated = validate(ChatRequest, { ...BODY, ...extra });
  if (validated.kind === "invalid") throw new Error(validated.problem.message);
  const demand = toolDemandOf(validated.value);
  return demand && { ...demand, tools: demand.tools.map((tool) => tool.function.name) };
}

function problemOf(extra: object) {
  const validated = validate(ChatRequest, { ...BODY, ...extra });
  return validated.kind === "invalid" ? validated.problem : undefined;
}

describe("toolDemandOf", () => {
  const both = ["look", "ask"];

  test.each([
    [undefined, { tools: both, demand: "optional", isNamed: false }],
    ["auto", { tools: both, demand: "optional", isNamed: false }],
    ["required", { tools: both, demand: "required", isNamed: false }],
    [named("ask"), { tools: ["ask"], demand: "required", isNamed: true }],
    [allowed("auto", "look"), { tools: ["look"], demand: "optional", isNamed: false }],
    [allowed("required", "look"), { tools: ["look"], demand: "required", isNamed: false }],
    ["none", undefined],
  ])("a choice of %j asks for %j", (choice, demand) => {
    expect(demandOf({ tool_choice: choice })).toEqual(demand);
  });

  test("without tools nothing can be called", () => {
    expect(demandOf({ tools: undefined })).toBeUndefined();
    expect(demandOf({ tools: undefined, tool_choice: "none" })).toBeUndefined();
  });
});

describe("a request's tools", () => {
  test.each([
    [{ tools: undefined, tool_choice: "required" }, "invalid_value", "tool_choice"],
    [{ tool_choice: named("fly") }, "invalid_value", "tool_choice"],
    [{ tool_choice: allowed("auto", "look", "fly") }, "invalid_value", "tool_choice"],
    [{ tools: [aTool("look"), aTool("look")] }, "invalid_value", "tools"],
    [{ tools: [{ type: "custom" }] }, "unsupported_value", "tools[0].type"],
    [{ tools: [aTool("no spaces")] }, "invalid_value", "tools[0].function.name"],
    [{ tools: [aTool("x".repeat(65))] }, "invalid_value", "tools[0].function.name"],
    [{ tools: [aTool("f", { parameters: 7 })] }, "invalid_type", "tools[0].function.parameters"],
    [{ response_format: { type: "json_object" } }, "unsupported_parameter", "response_format"],
  ])("%j is refused as %s of %s", (extra, code, param) => {
    expect(problemOf(extra)).toMatchObject({ code, param });
  });

  test("an answer in JSON is possible where no tool may be called", () => {
    const extra = { response_format: { type: "json_object" }, tool_choice: "none" };
    expect(problemOf(extra)).toBeUndefined();
  });

  test("129 tools are too many", () => {
    const tools = Array.from({ length: 129 }, (_, index) => aTool(`tool${index}`));
    expect(problemOf({ tools: tools.slice(1) })).toBeUndefined();
    expect(problemOf({ tools })).toMatchObject({ code: "array_above_max_length", param: "tools" });
  });
});
