import { describe, expect, test } from "vitest";
import { ChatRequest } from "../../../src/protocol/chat.ts";
import { InertChatParameters } from "../../../src/protocol/inert-parameters.ts";
import { parseRequest } from "../../../src/protocol/parse-request.ts";
import { UNKNOWN_PARAMETERS_MAX } from "../../../src/protocol/unknown-parameters.ts";

const BODY = { model: "sluice-tiny", messages: [{ role: "user", content: "Hello!" }] };

const parse = (body: Readonly<Record<string, unknown>>) =>
  parseRequest({ request: ChatRequest, inert: InertChatParameters }, body);

const pairs = (count: number) =>
  Object.fromEntries(Array.from({ length: count }, (_, index) => [`key${index}`, "value"]));

describe("parseRequest", () => {
  test("a request is parsed with its defaults, and nothing in it is unknown", () => {
    expect(parse(BODY)).toEqual({
      kind: "valid",
      request: ChatRequest.parse(BODY),
      unknownParameters: [],
    });
  });

  test("a fault of the schema is told", () => {
    expect(parse({ ...BODY, temperature: 9 })).toMatchObject({
      kind: "invalid",
      problem: { code: "decimal_above_max_value", param: "temperature" },
    });
  });

  test.each([
    ["functions", []],
    ["function_call", "auto"],
    ["modalities", ["text", "audio"]],
    ["audio", { voice: "alloy" }],
  ])("%s %j would change the output, so it is refused by name", (param, value) => {
    const parsed = parse({ ...BODY, [param]: value });
    expect(parsed).toMatchObject({
      kind: "invalid",
      problem: { code: "unsupported_parameter", param },
    });
  });

  test.each([
    ["service_tier", "gold", "invalid_value"],
    ["reasoning_effort", "some", "invalid_value"],
    ["verbosity", 3, "invalid_value"],
    ["prompt_cache_key", "k".repeat(1025), "string_above_max_length"],
    ["safety_identifier", "s".repeat(65), "string_above_max_length"],
    ["user", 3, "invalid_type"],
    ["store", "no", "invalid_type"],
  ])("%s %j is a fault of its own", (param, value, code) => {
    const { kind, problem } = {
      problem: undefined,
      ...parse({ ...BODY, [param]: value }),
    };
    expect(kind).toBe("invalid");
    expect(problem?.code).toBe(code);
    expect(problem?.param?.startsWith(param)).toBe(true);
  });

  test("metadata has at most 16 short pairs of strings", () => {
    expect(parse({ ...BODY, metadata: pairs(16) }).kind).toBe("valid");
    for (const metadata of [
      pairs(17),
      { ["k".repeat(65)]: "v" },
      { key: "v".repeat(513) },
      { key: 3 },
    ]) {
      expect(parse({ ...BODY, metadata }).kind).toBe("invalid");
    }
  });

  test("neutral and ignored values change nothing about the request", () => {
    const inert = {
      modalities: ["text"],
      metadata: { team: "search" },
      prediction: { type: "content", content: "Hello" },
      prompt_cache_key: "",
      prompt_cache_options: { mode: "implicit" },
      prompt_cache_retention: "24h",
      reasoning_effort: "low",
      safety_identifier: "abc",
      service_tier: "auto",
      store: true,
      user: "someone",
      verbosity: "high",
      web_search_options: {},
    };
    expect(parse({ ...BODY, ...inert })).toEqual(parse(BODY));
  });

  test("null equals absent in every inert parameter", () => {
    const names = Object.keys(InertChatParameters.shape);
    const nulls = Object.fromEntries(names.map((name) => [name, null]));
    expect(parse({ ...BODY, ...nulls })).toEqual(parse(BODY));
  });

  test("unknown parameters are listed, not refused, up to a bound", () => {
    expect(parse({ ...BODY, cache_control: {}, reasoning: 1 })).toMatchObject({
      kind: "valid",
      unknownParameters: ["cache_control", "reasoning"],
    });
    const many = Object.fromEntries(
      Array.from({ length: UNKNOWN_PARAMETERS_MAX + 1 }, (_, index) => [`unknown${index}`, index]),
    );
    const parsed = parse({ ...BODY, ...many });
    expect(parsed).toMatchObject({ kind: "valid" });
    expect("unknownParameters" in parsed && parsed.unknownParameters).toHaveLength(
      UNKNOWN_PARAMETERS_MAX,
    );
  });
});
