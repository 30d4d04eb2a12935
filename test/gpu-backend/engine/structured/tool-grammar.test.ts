import assert from "node:assert/strict";
import { afterAll, describe, expect, test } from "vitest";
import type { ConstraintSpec } from "../../../../gpu-backend/engine/generate-request.ts";
import { ConstraintCompiler } from "../../../../gpu-backend/engine/structured/constraint-compiler.ts";
import { ToolCallParser } from "../../../../gpu-backend/engine/structured/tool-call-parser.ts";
import type { TokenConstraint } from "../../../../gpu-backend/engine/token-constraint.ts";
import { seededRandom } from "../../../../src/base/random.ts";
import { letsThrough, vocabulary, writeRandomly } from "../../../support/grammar-vocabulary.ts";
import { findViolation, type Schema } from "../../../support/json-schema-validator.ts";

const compiler = new ConstraintCompiler({ vocabulary, grammarsMax: 4 });
afterAll(() => compiler.close());

const SCHEMAS: Readonly<Record<string, Schema>> = {
  get_weather: {
    type: "object",
    properties: { city: { type: "string" }, days: { type: "integer", minimum: 1, maximum: 9 } },
    required: ["city"],
  },
  now: { type: "object", properties: {} },
  search: {},
};

type ToolCalls = Extract<ConstraintSpec, { kind: "tool-calls" }>;

async function open(options: Pick<ToolCalls, "demand" | "isParallel">): Promise<TokenConstraint> {
  const tools = Object.entries(SCHEMAS).map(([name, schema]) => ({
    name,
    schema: JSON.stringify(schema),
  }));
  const opened = await compiler.open({ kind: "tool-calls", tools, ...options });
  assert(opened.kind === "opened", JSON.stringify(opened));
  return opened.constraint;
}

async function isAllowed(options: Parameters<typeof open>[0], text: string): Promise<boolean> {
  const constraint = await open(options);
  const isThrough = letsThrough(constraint, text);
  constraint.dispose();
  return isThrough;
}

const WEATHER = '<tool_call>{"name": "get_weather", "arguments": {"city": "Paris"}}</tool_call>';
const NOW = '<tool_call>{"name": "now", "arguments": {}}</tool_call>';
const BROKEN = [
  '<tool_call>{"name": "get_weather", "arguments": {}}</tool_call>',
  '<tool_call>{"name": "other", "arguments": {}}</tool_call>',
  '<tool_call>{"name": "now", "arguments": {"city": "Paris"}}</tool_call>',
  "<tool_call>now</tool_call>",
  '<tool_call>{"name": "now", "arguments": {}}',
  '<tool_call>{"name": "search", "arguments": 5}</tool_call>',
];
const SEARCH = '<tool_call>{"name": "search", "arguments": {"what": [5]}}</tool_call>';

describe.each([true, false])("with parallel calls %s", (isParallel) => {
  test("a required call stands alone, and has arguments that its tool takes", async () => {
    const required = { demand: "required", isParallel } as const;
    for (const text of [WEATHER, NOW, SEARCH]) expect(await isAllowed(required, text)).toBe(true);
    for (const text of [...BROKEN, "", "No.", `No. ${NOW}`, `${NOW} and`]) {
      expect([text, await isAllowed(required, text)]).toEqual([text, false]);
    }
    expect(await isAllowed(required, WEATHER + NOW)).toBe(isParallel);
  });

  test("an optional call may stand behind text, and text may do without", async () => {
    const optional = { demand: "optional", isParallel } as const;
    for (const text of ["", "No.", "a < b <tool", WEATHER, `Let me see: ${NOW}`]) {
      expect([text, await isAllowed(optional, text)]).toEqual([text, true]);
    }
    for (const text of BROKEN) {
      expect([text, await isAllowed(optional, text)]).toEqual([text, false]);
    }
    expect(await isAllowed(optional, `${WEATHER} and ${NOW}`)).toBe(isParallel);
  });
});

test("calls of random tokens are read back whole, with valid arguments", async () => {
  const random = seededRandom(11);
  for (let count = 0; count < 8; count += 1) {
    const constraint = await open({ demand: "required", isParallel: true });
    const parser = new ToolCallParser();
    const parts = parser.push(String(writeRandomly(constraint, random)));
    constraint.dispose();
    const calls = parts.flatMap((part) => (part.kind === "call-started" ? [part] : []));
    expect(calls.length).toBeGreaterThan(0);
    expect(parts.filter((part) => part.kind === "text")).toEqual([]);
    for (const { index, name } of calls) {
      const json = parts.map((part) =>
        part.kind === "call-arguments" && part.index === index ? part.text : "",
      );
      expect(findViolation(SCHEMAS[name] ?? false, JSON.parse(json.join("")))).toBeUndefined();
    }
  }
});
