import { describe, expect, test } from "vitest";
import {
  ChatRequest,
  ChatRequestShape,
  MESSAGES_MAX,
  messageText,
  requestedOutputTokensMax,
} from "../../../src/protocol/chat.ts";
import { validate } from "../../../src/protocol/validation.ts";

const HELLO = { role: "user", content: "Hello!" };
const BODY = { model: "sluice-tiny", messages: [HELLO] };

function accepted(extra: object): ChatRequest {
  const validated = validate(ChatRequest, { ...BODY, ...extra });
  if (validated.kind === "invalid") throw new Error(validated.problem.message);
  return validated.value;
}

function problemOf(extra: object) {
  const validated = validate(ChatRequest, { ...BODY, ...extra });
  if (validated.kind === "valid") throw new Error("Expected a problem, found a valid request");
  return validated.problem;
}

const biases = (count: number) =>
  Object.fromEntries(Array.from({ length: count }, (_, id) => [id, 1]));
const acceptedMessage = (message: object) => accepted({ messages: [message] }).messages[0];
const problemOfMessage = (message: unknown) => problemOf({ messages: [HELLO, message] });

const obfuscated = (include_obfuscation: boolean) => ({
  stream: true,
  stream_options: { include_obfuscation },
});

describe("ChatRequest", () => {
  test("defaults are OpenAI's", () => {
    expect(accepted({})).toEqual({
      ...BODY,
      n: 1,
      temperature: 1,
      top_p: 1,
      top_k: 0,
      min_p: 0,
      frequency_penalty: 0,
      presence_penalty: 0,
      repetition_penalty: 1,
      logit_bias: [],
      stop: [],
      stop_token_ids: [],
      include_stop_str_in_output: false,
      ignore_eos: false,
      min_tokens: 0,
      stream: false,
      priority: 0,
      logprobs: false,
      top_logprobs: 0,
      response_format: { type: "text" },
      parallel_tool_calls: true,
    });
  });

  test("null equals absent in every parameter", () => {
    const names = Object.keys(ChatRequest.shape).filter((name) => !(name in BODY));
    expect(names.length).toBeGreaterThan(8);
    const nulls = Object.fromEntries(names.map((name) => [name, null]));
    expect(accepted(nulls)).toEqual(accepted({}));
    expect(accepted({ stream: true, stream_options: { include_usage: null } })).toEqual(
      accepted({ stream: true, stream_options: {} }),
    );
  });

  test.each(["model", "messages"])("%s is required", (param) => {
    const problem = { code: "missing_required_parameter", param };
    expect(problemOf({ [param]: undefined })).toMatchObject(problem);
    expect(problemOf({ [param]: null })).toMatchObject(problem);
  });

  test.each([
    ["max_tokens", 0, "integer_below_min_value"],
    ["max_tokens", 1.5, "invalid_type"],
    ["max_tokens", "10", "invalid_type"],
    ["max_completion_tokens", 0, "integer_below_min_value"],
    ["max_completion_tokens", 2 ** 60, "integer_above_max_value"],
    ["temperature", -0.1, "decimal_below_min_value"],
    ["temperature", 2.1, "decimal_above_max_value"],
    ["temperature", "hot", "invalid_type"],
    ["top_p", -0.1, "decimal_below_min_value"],
    ["top_p", 1.01, "decimal_above_max_value"],
    ["top_k", -2, "integer_below_min_value"],
    ["top_k", 0.5, "invalid_type"],
    ["seed", 0.5, "invalid_type"],
    ["seed", -(2 ** 64), "integer_below_min_value"],
    ["seed", 2 ** 64, "integer_above_max_value"],
    ["stop", "", "invalid_value"],
    ["stop", [], "empty_array"],
    ["stop", ["a", "b", "c", "d", "e"], "array_above_max_length"],
    ["stop", "x".repeat(1025), "string_above_max_length"],
    ["stop", "\uD83D", "invalid_value"],
    ["stop", 7, "invalid_type"],
    ["stream", "yes", "invalid_type"],
    ["n", 0, "integer_below_min_value"],
    ["n", 17, "integer_above_max_value"],
    ["min_p", 1.5, "decimal_above_max_value"],
    ["frequency_penalty", 2.5, "decimal_above_max_value"],
    ["presence_penalty", -2.5, "decimal_below_min_value"],
    ["repetition_penalty", 0, "decimal_below_min_value"],
    ["repetition_penalty", 11, "decimal_above_max_value"],
    ["stop_token_ids", [-1], "integer_below_min_value"],
    ["stop_token_ids", Array.from({ length: 129 }, () => 7), "array_above_max_length"],
    ["min_tokens", -1, "integer_below_min_value"],
    ["priority", 0.5, "invalid_type"],
    ["cache_salt", "s".repeat(1025), "string_above_max_length"],
    ["logprobs", 1, "invalid_type"],
    ["top_logprobs", 21, "integer_above_max_value"],
    ["top_logprobs", 2, "invalid_value"],
    ["logit_bias", [1], "invalid_type"],
    ["response_format", { type: "xml" }, "invalid_value"],
    ["response_format", { type: "json_schema" }, "missing_required_parameter"],
    ["tools", [], "empty_array"],
    ["tool_choice", "auto", "invalid_value"],
    ["model", "", "invalid_value"],
    ["messages", [], "empty_array"],
    ["messages", "Hello!", "invalid_type"],
  ])("%s %j is refused as %s", (param, value, code) => {
    const problem = problemOf({ [param]: value });
    expect(problem.code).toBe(code);
    expect(problem.param?.startsWith(param)).toBe(true);
  });

  test.each([
    [{ abc: 1 }, "invalid_value", "logit_bias.abc"],
    [{ "-1": 1 }, "invalid_value", "logit_bias.-1"],
    [{ 5: 101 }, "decimal_above_max_value", "logit_bias.5"],
    [{ 5: -101 }, "decimal_below_min_value", "logit_bias.5"],
    [{ 5: "much" }, "invalid_type", "logit_bias.5"],
  ])("a bias of %j is refused at its token", (bias, code, param) => {
    expect(problemOf({ logit_bias: bias })).toMatchObject({ code, param });
  });

  test("biases are pairs of a token and a number, at most 4096 of them", () => {
    expect(accepted({ logit_bias: { 5: 100, 7: -100 } }).logit_bias).toEqual([
      [5, 100],
      [7, -100],
    ]);
    expect(accepted({ logit_bias: biases(4096) }).logit_bias).toHaveLength(4096);
    expect(problemOf({ logit_bias: biases(4097) })).toMatchObject({ param: "logit_bias" });
  });

  test("a minimum of output above the client's maximum is refused", () => {
    expect(accepted({ min_tokens: 5, max_tokens: 5 }).min_tokens).toBe(5);
    expect(accepted({ min_tokens: 5 }).min_tokens).toBe(5);
    expect(problemOf({ min_tokens: 5, max_tokens: 9, max_completion_tokens: 4 })).toMatchObject({
      code: "integer_above_max_value",
      param: "min_tokens",
    });
  });

  test.each([
    ["temperature", 0],
    ["temperature", 2],
    ["top_p", 0],
    ["top_p", 1],
    ["top_k", 40],
    ["seed", -1],
    ["seed", 2 ** 63 - 2 ** 11],
    ["max_tokens", 1],
    ["n", 16],
    ["repetition_penalty", 0.1],
    ["priority", -5],
  ])("%s %d is taken as it is", (param, value) => {
    expect(accepted({ [param]: value })).toMatchObject({ [param]: value });
  });

  test("a stop string and a list of one are the same", () => {
    expect(accepted({ stop: "END" }).stop).toEqual(["END"]);
    expect(accepted({ stop: ["END"] }).stop).toEqual(["END"]);
    expect(problemOf({ stop: ["a", ""] }).param).toBe("stop[1]");
  });

  test("top_k -1 keeps all tokens, as 0 does", () => {
    expect(accepted({ top_k: -1 }).top_k).toBe(0);
  });

  describe("messages", () => {
    test.each(["system", "developer", "user", "assistant"])("%s may say text", (role) => {
      expect(acceptedMessage({ role, content: "Hi" })).toEqual({ role, content: "Hi" });
    });

    test("text parts count as one text", () => {
      const content = [
        { type: "text", text: "one " },
        { type: "text", text: "two", cache_control: { type: "ephemeral" } },
      ];
      expect(acceptedMessage({ role: "user", content })).toEqual({
        role: "user",
        content: "one two",
      });
    });

    const call = { id: "1", type: "function", function: { name: "f", arguments: "{}" } };

    test("an assistant that called a tool may have said nothing, and the tool answers", () => {
      const messages = [
        { role: "assistant", content: null, tool_calls: [call] },
        { role: "tool", tool_call_id: "1", content: "sunny" },
      ];
      expect(accepted({ messages }).messages).toEqual([
        { role: "assistant", tool_calls: [call] },
        { role: "tool", tool_call_id: "1", content: "sunny" },
      ]);
    });

    test("an assistant that refused before may have said nothing else", () => {
      const refused = { role: "assistant", content: null, refusal: "I cannot." };
      expect(acceptedMessage(refused)).toEqual({ role: "assistant", refusal: "I cannot." });
    });

    test.each([
      ["an unknown role", { role: "function", content: "x" }, "invalid_value", "role"],
      ["no role", { content: "x" }, "missing_required_parameter", "role"],
      ["a user without content", { role: "user" }, "missing_required_parameter", "content"],
      [
        "a user whose content is null",
        { role: "user", content: null },
        "missing_required_parameter",
        "content",
      ],
      [
        "an assistant without anything",
        { role: "assistant" },
        "missing_required_parameter",
        "content",
      ],
      [
        "an assistant with an empty list of calls",
        { role: "assistant", tool_calls: [] },
        "missing_required_parameter",
        "content",
      ],
      [
        "content of another type",
        { role: "user", content: { text: "x" } },
        "invalid_type",
        "content",
      ],
      ["no parts", { role: "user", content: [] }, "empty_array", "content"],
      [
        "an image",
        { role: "user", content: [{ type: "image_url", image_url: {} }] },
        "unsupported_value",
        "content[0].type",
      ],
      [
        "a part without text",
        { role: "user", content: [{ type: "text" }] },
        "missing_required_parameter",
        "content[0].text",
      ],
      [
        "a tool's answer without its call",
        { role: "tool", content: "x" },
        "missing_required_parameter",
        "tool_call_id",
      ],
      [
        "a call that is no function",
        { role: "assistant", tool_calls: [{ ...call, type: "custom" }] },
        "invalid_value",
        "tool_calls[0].type",
      ],
    ])("%s is refused", (_, message, code, path) => {
      expect(problemOfMessage(message)).toMatchObject({ code, param: `messages[1].${path}` });
    });

    test("a message that is no object is refused at its place", () => {
      expect(problemOfMessage("Hi")).toMatchObject({ code: "invalid_type", param: "messages[1]" });
    });

    test("as many messages as the limit are taken, one more is not", () => {
      const full = Array.from({ length: MESSAGES_MAX }, () => HELLO);
      expect(accepted({ messages: full }).messages).toHaveLength(MESSAGES_MAX);
      expect(problemOf({ messages: [...full, "not even read"] })).toMatchObject({
        code: "array_above_max_length",
        param: "messages",
      });
    });
  });

  test("a list that is too long costs one issue, however faulty its elements are", () => {
    const messages = Array.from({ length: 100_000 }, () => ({}));
    expect(ChatRequest.safeParse({ ...BODY, messages }).error?.issues).toHaveLength(1);
    expect(ChatRequestShape.safeParse({ ...BODY, messages }).error?.issues).toHaveLength(1);
  });

  describe("stream_options", () => {
    test("usage is asked for with a stream", () => {
      const options = { stream: true, stream_options: { include_usage: true, other: 1 } };
      expect(accepted(options).stream_options).toEqual({ include_usage: true });
    });

    test("options without a stream are refused", () => {
      const problem = { code: "invalid_value", param: "stream_options" };
      expect(problemOf({ stream_options: {} })).toMatchObject(problem);
      expect(problemOf({ stream: false, stream_options: {} })).toMatchObject(problem);
    });

    test("padding against eavesdroppers is refused, not passed over", () => {
      expect(accepted(obfuscated(false)).stream).toBe(true);
      expect(problemOf(obfuscated(true))).toMatchObject({
        code: "unsupported_parameter",
        param: "stream_options.include_obfuscation",
      });
    });
  });
});

describe("ChatRequestShape", () => {
  test("what the edge does not read passes untouched", () => {
    const body = {
      ...BODY,
      messages: [
        { role: "function", name: "f", content: null },
        { role: "user", content: [{ type: "image_url", image_url: { url: "x" } }] },
      ],
      temperature: "hot",
      tools: [{ type: "custom" }],
      unknown: { deep: [null] },
      stream: true,
      stream_options: { include_usage: true, other: null },
    };
    expect(validate(ChatRequestShape, body)).toEqual({
      kind: "valid",
      value: { ...body, messages: [{ role: "function", name: "f" }, body.messages[1]] },
    });
  });

  test.each([
    ["model", 3, "invalid_type", "model"],
    ["messages", [], "empty_array", "messages"],
    ["messages", [{ content: "x" }], "missing_required_parameter", "messages[0].role"],
    ["messages", [{ role: "user", content: 3 }], "invalid_type", "messages[0].content"],
    ["max_tokens", 0, "integer_below_min_value", "max_tokens"],
    ["stream", 1, "invalid_type", "stream"],
    ["stream_options", {}, "invalid_value", "stream_options"],
  ])("a %s of %j is refused", (name, value, code, param) => {
    expect(validate(ChatRequestShape, { ...BODY, [name]: value })).toMatchObject({
      kind: "invalid",
      problem: { code, param },
    });
  });
});

describe("requestedOutputTokensMax", () => {
  test("the newer parameter wins", () => {
    expect(requestedOutputTokensMax({ max_completion_tokens: 5, max_tokens: 9 })).toBe(5);
    expect(requestedOutputTokensMax({ max_tokens: 9 })).toBe(9);
    expect(requestedOutputTokensMax({})).toBeUndefined();
  });
});

describe("messageText", () => {
  test("is the text of a message, whatever else it holds", () => {
    expect(messageText({ role: "user", content: "Hi" })).toBe("Hi");
    expect(messageText({ role: "assistant" })).toBe("");
    const image = { type: "image_url", text: 3 };
    const parts = [{ type: "text", text: "a" }, image, { type: "text", text: "b" }];
    expect(messageText({ role: "user", content: parts })).toBe("ab");
  });
});
