import { describe, expect, test } from "vitest";
import { CompletionRequest } from "../../../src/protocol/completion.ts";
import { TEXTS_MAX } from "../../../src/protocol/text-input.ts";
import { TokenizeRequest } from "../../../src/protocol/tokenize.ts";
import { validate } from "../../../src/protocol/validation.ts";

const BODY = { model: "sluice-tiny", prompt: "Once" };

function accepted(extra: object): CompletionRequest {
  const validated = validate(CompletionRequest, { ...BODY, ...extra });
  if (validated.kind === "invalid") throw new Error(validated.problem.message);
  return validated.value;
}

function problemOf(extra: object) {
  const validated = validate(CompletionRequest, { ...BODY, ...extra });
  if (validated.kind === "valid") throw new Error("Expected a problem, found a valid request");
  return validated.problem;
}

const text = (value: string) => ({ kind: "text", text: value });
const tokens = (...tokenIds: number[]) => ({ kind: "tokens", tokenIds });

test.each([
  [[-1], "prompt[0]", "a token id, a whole number of at least 0, found -1"],
  [
    [1, 2, "x"],
    "prompt[2]",
    "a token id, a whole number of at least 0, found a string of length 1",
  ],
  [["a", 1], "prompt[1]", "a string, as the first of the list is, found 1"],
  [[[1], [2, 0.5]], "prompt[1][1]", "a token id, a whole number of at least 0, found 0.5"],
  [[[1], []], "prompt[1]", "a list of at least one token id, found a list of 0"],
  [[[1], 2], "prompt[1]", "a list of at least one token id, found 2"],
  [
    [{}],
    "prompt",
    "a string, a list of strings, or token ids in one list or several, found a list of 1",
  ],
])("of the prompt %j it is told which part is not right", (prompt, param, expected) => {
  expect(validate(CompletionRequest, { model: "tiny", prompt })).toEqual({
    kind: "invalid",
    problem: { code: "invalid_type", message: `Expected '${param}' to be ${expected}`, param },
  });
});

describe("CompletionRequest", () => {
  test("an answer has 16 tokens unless it is said otherwise", () => {
    expect(accepted({}).max_tokens).toBe(16);
    expect(accepted({ max_tokens: null }).max_tokens).toBe(16);
  });

  test("no output at all is for those who have the prompt echoed", () => {
    expect(accepted({ max_tokens: 0, echo: true }).max_tokens).toBe(0);
    expect(problemOf({ max_tokens: 0 })).toMatchObject({
      code: "integer_below_min_value",
      param: "max_tokens",
    });
  });

  test.each([
    ["max_tokens", -1, "integer_below_min_value"],
    ["min_tokens", 17, "integer_above_max_value"],
    ["logprobs", 6, "integer_above_max_value"],
    ["logprobs", true, "invalid_type"],
    ["suffix", "the end", "unsupported_parameter"],
    ["best_of", 2, "unsupported_parameter"],
    ["echo", "yes", "invalid_type"],
    ["stream_options", {}, "invalid_value"],
    ["prompt", undefined, "missing_required_parameter"],
    ["prompt", [], "empty_array"],
    ["prompt", 7, "invalid_type"],
    ["prompt", Array.from({ length: TEXTS_MAX + 1 }, () => "a"), "array_above_max_length"],
    ["prompt", Array.from({ length: 262_145 }, () => 1), "array_above_max_length"],
  ])("%s %j is refused as %s", (param, value, code) => {
    expect(problemOf({ [param]: value })).toMatchObject({ code, param });
  });

  test("values that mean nothing are taken", () => {
    expect(accepted({ suffix: null, best_of: 1 }).prompt).toEqual(accepted({}).prompt);
  });

  test("a prompt is a text, several, tokens, or several lists of tokens", () => {
    expect(accepted({ prompt: "" }).prompt).toEqual([text("")]);
    expect(accepted({ prompt: ["a", "b"] }).prompt).toEqual([text("a"), text("b")]);
    expect(accepted({ prompt: [3, 4] }).prompt).toEqual([tokens(3, 4)]);
    expect(accepted({ prompt: [[3], [4, 5]] }).prompt).toEqual([tokens(3), tokens(4, 5)]);
  });
});

const isTokenizeRequest = (extra: object) =>
  validate(TokenizeRequest, { model: "sluice-tiny", ...extra }).kind === "valid";

describe("TokenizeRequest", () => {
  const messages = [{ role: "user", content: "Hi" }];

  test("is about a text or about a conversation, never both and never neither", () => {
    expect(isTokenizeRequest({ prompt: "" })).toBe(true);
    expect(isTokenizeRequest({ messages })).toBe(true);
    expect(isTokenizeRequest({})).toBe(false);
    expect(isTokenizeRequest({ prompt: "Hi", messages })).toBe(false);
  });
});
