import { describe, expect, test } from "vitest";
import { checkSchema } from "../../../../gpu-backend/engine/structured/schema-grammar.ts";

const PARAM = "response_format.json_schema.schema";
const text = { type: "string" };

/** Objects in objects, so many of them. */
function nested(depth: number): unknown {
  let schema: unknown = text;
  for (let level = 0; level < depth; level += 1) {
    schema = { type: "object", properties: { a: schema } };
  }
  return schema;
}

const named = (count: number) =>
  Object.fromEntries(Array.from({ length: count }, (_, index) => [`name_${index}`, text]));

const UNSUPPORTED: readonly (readonly [schema: unknown, place: string, keyword: string])[] = [
  [{ not: text }, ".not", "'not'"],
  [{ type: "object", properties: { a: { oneOf: [text] } } }, ".properties.a.oneOf", "'oneOf'"],
  [{ allOf: [text, { type: "null" }] }, ".allOf", "'allOf'"],
  [{ type: "array", items: text, uniqueItems: true }, ".uniqueItems", "'uniqueItems'"],
  [{ type: "array", contains: text }, ".contains", "'contains'"],
  [{ type: "object", patternProperties: {} }, ".patternProperties", "'patternProperties'"],
  [{ type: "object", minProperties: 1 }, ".minProperties", "'minProperties'"],
  [{ type: "object", propertyNames: text }, ".propertyNames", "'propertyNames'"],
  [{ type: "number", multipleOf: 2 }, ".multipleOf", "'multipleOf'"],
  [{ if: text, else: text }, ".if", "'if'"],
  [{ $id: "https://example.com/a", type: "string" }, ".$id", "'$id'"],
  [{ type: "string", minimum: 1 }, ".minimum", "'minimum'"],
  [{ anyOf: [text], type: "string" }, ".type", "'type'"],
  [{ $ref: "#/$defs/a", type: "string", $defs: { a: text } }, ".type", "'type'"],
  [{ $ref: "https://example.com/schema" }, ".$ref", "'$ref'"],
  [{ const: 1, minimum: 0 }, ".minimum", "'minimum'"],
  [{ type: "string", pattern: "a", minLength: 2 }, ".minLength", "'minLength'"],
  [{ type: "string", pattern: "a", format: "date" }, ".format", "'format'"],
  [{ type: "string", format: "iri" }, ".format", "date, time"],
  [{ type: "string", pattern: "(?=a)b" }, ".pattern", "without a group with '?'"],
  [{ type: "string", pattern: "(a)\\1" }, ".pattern", "without '\\1'"],
  [{ type: "string", pattern: "\\bword\\b" }, ".pattern", "without '\\b'"],
  [{ type: "string", pattern: "\\p{L}" }, ".pattern", "without '\\p'"],
  [{ type: "string", pattern: "(a*)*" }, ".pattern", "not empty"],
  [{ type: "string", pattern: "a^b" }, ".pattern", "without '^' inside"],
  [{ type: "string", pattern: "a$b" }, ".pattern", "without '$'"],
  [{ type: "string", pattern: "[\\n\\r]" }, ".pattern", "needs no escape"],
  [{ type: "string", pattern: `${"(".repeat(40)}a${")".repeat(40)}` }, ".pattern", "so deep"],
  [{ type: "string", pattern: "(a{100}){100}" }, ".pattern", "at most 500"],
  [{ type: "string", maxLength: 501 }, ".maxLength", "at most 500"],
  [{ type: "array", items: text, maxItems: 1e9 }, ".maxItems", "at most 500"],
  [{ type: "object", properties: named(501) }, ".properties", "more than 500"],
  [{ type: "object", properties: { ["a".repeat(257)]: text } }, ".properties", "256"],
  [{ enum: Array.from({ length: 1001 }, (_, index) => index) }, ".enum", "1000"],
  [{ enum: ["x".repeat(300_000)] }, "", "a smaller schema"],
  [{ type: "object", properties: JSON.parse('{"__proto__": {}}') }, ".properties", "'__proto__'"],
  [nested(33), ".properties.a".repeat(33), "32 levels"],
];

const BROKEN: readonly (readonly [schema: unknown, place: string, expected: string])[] = [
  [7, "", "a schema object"],
  [null, "", "a schema object"],
  [false, "", "a schema object"],
  [[text], "", "a schema object"],
  [{ type: "strnig" }, ".type", "among object, array"],
  [{ type: [] }, ".type", "among object, array"],
  [{ type: ["string", "string"] }, ".type", "among object, array"],
  [{ type: "constructor" }, ".type", "among object, array"],
  [{ enum: [] }, ".enum", "not empty"],
  [{ enum: "a" }, ".enum", "a list"],
  [{ type: "integer", enum: ["a"] }, ".type", "a constant beside it"],
  [{ anyOf: [] }, ".anyOf", "not empty"],
  [{ anyOf: [text, 5] }, ".anyOf[1]", "a schema object"],
  [{ $ref: "#/$defs/none" }, ".$ref", "a part of the schema"],
  [{ $ref: "#/$defs/toString", $defs: {} }, ".$ref", "a part of the schema"],
  [{ $ref: 5 }, ".$ref", "a string"],
  [{ type: "string", pattern: "([a" }, ".pattern", "a regular expression"],
  [{ type: "string", pattern: 5 }, ".pattern", "a string"],
  [{ type: "string", minLength: -1 }, ".minLength", "a whole number"],
  [{ type: "string", minLength: 3, maxLength: 2 }, ".maxLength", "as large as minLength"],
  [{ type: "array", minItems: 1.5 }, ".minItems", "a whole number"],
  [{ type: "array", minItems: 3, maxItems: 2 }, ".minItems", "at most as many"],
  [{ type: "array", prefixItems: [text], minItems: 2 }, ".minItems", "at most as many"],
  [{ type: "integer", minimum: 2, maximum: 1 }, ".minimum", "leaves a whole number"],
  [{ type: "number", minimum: 0.2, maximum: 0.8 }, ".minimum", "leaves a whole number"],
  [{ type: "number", minimum: "0" }, ".minimum", "a number"],
  [{ type: "object", properties: [] }, ".properties", "an object of schemas"],
  [{ type: "object", properties: {}, required: ["a"] }, ".required", "names in 'properties'"],
  [{ type: "object", properties: {}, required: [1] }, ".required", "a list of names"],
  [{ $ref: "#" }, "", "refer to itself"],
  [{ anyOf: [{ $ref: "#" }, text] }, "", "refer to itself"],
  [
    { $ref: "#/$defs/a", $defs: { a: { $ref: "#/$defs/b" }, b: { $ref: "#/$defs/a" } } },
    "",
    "refer to itself",
  ],
  [{ type: "object", properties: { a: { $ref: "#" } }, required: ["a"] }, "", "a finite value"],
  [{ type: "array", items: { $ref: "#" }, minItems: 1 }, "", "a finite value"],
];

describe("checkSchema()", () => {
  test.each(UNSUPPORTED)("%j names what is not supported", (schema, place, keyword) => {
    expect(checkSchema(schema, PARAM)).toEqual({
      code: "unsupported_value",
      param: PARAM + place,
      message: expect.stringContaining(keyword),
    });
  });

  test.each(BROKEN)("%j is refused for what is broken in it", (schema, place, expected) => {
    expect(checkSchema(schema, PARAM)).toEqual({
      code: "invalid_value",
      param: PARAM + place,
      message: expect.stringContaining(expected),
    });
  });

  test("what the bounds just allow is supported", () => {
    for (const schema of [
      nested(32),
      { type: "string", maxLength: 500 },
      { type: "object", properties: named(500) },
      { type: "object", properties: named(200), additionalProperties: true },
      { enum: Array.from({ length: 1000 }, (_, index) => index) },
      { type: "object", properties: { a: { $ref: "#" } } },
      { type: "array", items: { $ref: "#" } },
      { anyOf: [text, { type: "array", items: { $ref: "#" }, minItems: 1 }] },
    ]) {
      expect(checkSchema(schema, PARAM)).toBeUndefined();
    }
  });

  test("annotations and definitions that nothing refers to say nothing", () => {
    const schema = {
      $schema: "https://json-schema.org/draft/2020-12/schema",
      title: "T",
      description: "D",
      default: 1,
      examples: [1],
      deprecated: false,
      readOnly: false,
      writeOnly: false,
      $comment: "C",
      $defs: { unused: { not: {} } },
      type: "integer",
    };
    expect(checkSchema(schema, PARAM)).toBeUndefined();
  });

  test("a long keyword of the client's appears only by its beginning", () => {
    const problem = checkSchema({ ["k".repeat(10_000)]: 1 }, PARAM);
    expect(JSON.stringify(problem).length).toBeLessThan(300);
  });
});
