import { describe, expect, test } from "vitest";
import { ChatRequest } from "../../../src/protocol/chat.ts";
import { InertParameters } from "../../../src/protocol/inert-parameters.ts";
import {
  parseChatRequest,
  UNKNOWN_PARAMETERS_MAX,
} from "../../../src/protocol/parse-chat-request.ts";

const BODY = { model: "sluice-tiny", messages: [{ role: "user", content: "Hello!" }] };

const pairs = (count: number) =>
  Object.fromEntries(Array.from({ length: count }, (_, index) => [`key${index}`, "value"]));

describe("parseChatRequest", () => {
  test("a request is parsed with its defaults, and nothing in it is unknown", () => {
    expect(parseChatRequest(BODY)).toEqual({
      kind: "valid",
      request: ChatRequest.parse(BODY),
      unknownParameters: [],
    });
  });

  test("a fault of the schema is told", () => {
    expect(parseChatRequest({ ...BODY, temperature: 9 })).toMatchObject({
      kind: "invalid",
      problem: { code: "decimal_above_max_value", param: "temperature" },
    });
  });

  test.each([
    ["n", 2],
    ["tools", [{ type: "function", function: { name: "f" } }]],
    ["tool_choice", "auto"],
    ["functions", []],
    ["function_call", "auto"],
    ["response_format", { type: "json_object" }],
    ["response_format", { type: "json_schema", json_schema: { name: "x", schema: {} } }],
    ["logprobs", true],
    ["top_logprobs", 5],
    ["logit_bias", { "50256": -100 }],
    ["frequency_penalty", 0.5],
    ["presence_penalty", -0.5],
    ["min_p", 0.1],
    ["repetition_penalty", 1.1],
    ["min_tokens", 1],
    ["ignore_eos", true],
    ["stop_token_ids", [5]],
    ["include_stop_str_in_output", true],
    ["modalities", ["text", "audio"]],
    ["audio", { voice: "alloy" }],
  ])("%s %j would change the output, so it is refused by name", (param, value) => {
    const parsed = parseChatRequest({ ...BODY, [param]: value });
    expect(parsed).toMatchObject({
      kind: "invalid",
      problem: { code: "unsupported_parameter", param },
    });
  });

  test.each([
    ["n", 0, "integer_below_min_value"],
    ["n", 129, "integer_above_max_value"],
    ["tools", [], "empty_array"],
    ["response_format", { type: "xml" }, "invalid_value"],
    ["frequency_penalty", 2.5, "decimal_above_max_value"],
    ["top_logprobs", 21, "integer_above_max_value"],
    ["logprobs", 1, "invalid_type"],
    ["service_tier", "gold", "invalid_value"],
    ["reasoning_effort", "some", "invalid_value"],
    ["verbosity", 3, "invalid_value"],
    ["prompt_cache_key", "k".repeat(1025), "string_above_max_length"],
    ["safety_identifier", "s".repeat(65), "string_above_max_length"],
    ["user", 3, "invalid_type"],
    ["store", "no", "invalid_type"],
    ["parallel_tool_calls", "no", "invalid_type"],
  ])("%s %j is a fault of its own", (param, value, code) => {
    const { kind, problem } = {
      problem: undefined,
      ...parseChatRequest({ ...BODY, [param]: value }),
    };
    expect(kind).toBe("invalid");
    expect(problem?.code).toBe(code);
    expect(problem?.param?.startsWith(param)).toBe(true);
  });

  test("metadata has at most 16 short pairs of strings", () => {
    expect(parseChatRequest({ ...BODY, metadata: pairs(16) }).kind).toBe("valid");
    for (const metadata of [
      pairs(17),
      { ["k".repeat(65)]: "v" },
      { key: "v".repeat(513) },
      { key: 3 },
    ]) {
      expect(parseChatRequest({ ...BODY, metadata }).kind).toBe("invalid");
    }
  });

  test("neutral and ignored values change nothing about the request", () => {
    const inert = {
      n: 1,
      response_format: { type: "text" },
      logprobs: false,
      top_logprobs: 0,
      logit_bias: {},
      frequency_penalty: 0,
      presence_penalty: 0,
      min_p: 0,
      repetition_penalty: 1,
      min_tokens: 0,
      ignore_eos: false,
      stop_token_ids: [],
      include_stop_str_in_output: false,
      modalities: ["text"],
      parallel_tool_calls: true,
      cache_salt: "pepper",
      metadata: { team: "search" },
      prediction: { type: "content", content: "Hello" },
      priority: 3,
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
    expect(parseChatRequest({ ...BODY, ...inert })).toEqual(parseChatRequest(BODY));
  });

  test("null equals absent in every inert parameter", () => {
    const names = Object.keys(InertParameters.shape);
    const nulls = Object.fromEntries(names.map((name) => [name, null]));
    expect(parseChatRequest({ ...BODY, ...nulls })).toEqual(parseChatRequest(BODY));
  });

  test("unknown parameters are listed, not refused, up to a bound", () => {
    expect(parseChatRequest({ ...BODY, cache_control: {}, reasoning: 1 })).toMatchObject({
      kind: "valid",
      unknownParameters: ["cache_control", "reasoning"],
    });
    const many = Object.fromEntries(
      Array.from({ length: UNKNOWN_PARAMETERS_MAX + 1 }, (_, index) => [`unknown${index}`, index]),
    );
    const parsed = parseChatRequest({ ...BODY, ...many });
    expect(parsed).toMatchObject({ kind: "valid" });
    expect("unknownParameters" in parsed && parsed.unknownParameters).toHaveLength(
      UNKNOWN_PARAMETERS_MAX,
    );
  });
});
