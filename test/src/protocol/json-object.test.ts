import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { JSON_DEPTH_MAX, parseJsonObject } from "../../../src/protocol/json-object.ts";

const nested = (depth: number) => `{"a":${"[".repeat(depth - 1)}${"]".repeat(depth - 1)}}`;

describe("parseJsonObject", () => {
  test("every JSON object comes back as it was", () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string(), fc.jsonValue({ maxDepth: 8 })), (value) => {
        const body: unknown = JSON.parse(JSON.stringify(value));
        expect(parseJsonObject(JSON.stringify(value))).toEqual({ kind: "valid", value: body });
      }),
    );
  });

  test.each(["", "{", "nonsense", '{"a":1}}', '{"', '{"\\"', '"', "]]", "\u{FEFF}{}"])(
    "%j is no JSON",
    (text) => {
      expect(parseJsonObject(text)).toEqual({ kind: "invalid", problem: { code: "invalid_json" } });
    },
  );

  test.each([
    ["[1]", "a list of 1"],
    ["null", "null"],
    ['"text"', "a string of length 4"],
    ["3", "3"],
  ])("%s is JSON but no object, which the message says", (text, found) => {
    expect(parseJsonObject(text)).toEqual({
      kind: "invalid",
      problem: {
        code: "invalid_json",
        message: `Expected the request body to be a JSON object, found ${found}`,
      },
    });
  });

  test("a body nests as deep as the limit and no deeper", () => {
    expect(parseJsonObject(nested(JSON_DEPTH_MAX)).kind).toBe("valid");
    expect(parseJsonObject(nested(JSON_DEPTH_MAX + 1))).toMatchObject({
      kind: "invalid",
      problem: { code: "invalid_json" },
    });
  });

  test("a million brackets are refused, not a stack overflow", () => {
    for (const text of [nested(1_000_000), "[".repeat(1_000_000)]) {
      expect(parseJsonObject(text)).toMatchObject({
        kind: "invalid",
        problem: { message: expect.stringContaining("at most 128 levels") },
      });
    }
  });

  test("brackets inside strings, also behind escaped quotes, do not nest", () => {
    const brackets = "[{".repeat(JSON_DEPTH_MAX);
    const texts = [`"${brackets}`, `\\"${brackets}`, `\\\\"${brackets}"`, `${brackets}\\`];
    for (const text of texts) {
      const body = JSON.stringify({ [text]: [text, { a: text }] });
      expect(parseJsonObject(body).kind).toBe("valid");
    }
  });

  test("a string that ends in backslashes hides no brackets behind it", () => {
    for (const text of ["\\", "\\\\", '"', '\\"']) {
      const body = `{${JSON.stringify(text)}:${nested(JSON_DEPTH_MAX)}}`;
      expect(parseJsonObject(body).kind).toBe("invalid");
    }
  });
});
