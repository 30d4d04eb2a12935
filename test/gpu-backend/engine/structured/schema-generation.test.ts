import assert from "node:assert/strict";
import * as fc from "fast-check";
import { afterAll, describe, expect, test } from "vitest";
import { ConstraintCompiler } from "../../../../gpu-backend/engine/structured/constraint-compiler.ts";
import type { TokenConstraint } from "../../../../gpu-backend/engine/token-constraint.ts";
import { seededRandom } from "../../../../src/base/random.ts";
import { letsThrough, vocabulary, writeRandomly } from "../../../support/grammar-vocabulary.ts";
import { findViolation, type Schema } from "../../../support/json-schema-validator.ts";

const compiler = new ConstraintCompiler({ vocabulary, grammarsMax: 2 });
afterAll(() => compiler.close());

const SEED = 20260817;
const TEXTS_PER_SCHEMA = 4;

async function open(schema: Schema): Promise<TokenConstraint> {
  const opened = await compiler.open({ kind: "json-schema", schema: JSON.stringify(schema) });
  assert(opened.kind === "opened", JSON.stringify(opened));
  return opened.constraint;
}

async function isAllowed(schema: Schema, text: string): Promise<boolean> {
  const constraint = await open(schema);
  const isThrough = letsThrough(constraint, text);
  constraint.dispose();
  return isThrough;
}

/** Writes texts of random allowed tokens and holds each to the schema, by other means. */
async function checkRandomTexts(schema: Schema, seed: number): Promise<void> {
  const random = seededRandom(seed);
  const utf8 = new TextDecoder("utf-8", { fatal: true });
  for (let count = 0; count < TEXTS_PER_SCHEMA; count += 1) {
    const constraint = await open(schema);
    const bytes = writeRandomly(constraint, random);
    constraint.dispose();
    assert(bytes !== undefined, `A text for ${JSON.stringify(schema)} comes to an end`);
    const text = utf8.decode(bytes);
    const value: unknown = JSON.parse(text);
    assert.equal(findViolation(schema, value), undefined, `${text} for ${JSON.stringify(schema)}`);
  }
}

interface KeywordCase {
  readonly schema: Schema;
  readonly allowed: readonly string[];
  readonly forbidden: readonly string[];
}

const address = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };

const KEYWORDS: Readonly<Record<string, KeywordCase>> = {
  "any schema": {
    schema: {},
    allowed: [
      '{"a": [1, -2.5e-3, true, null, "x"]}',
      '"é漢🧑‍🚀"',
      "[]",
      "{}",
      '"\\u00e9\\n\\ud83d\\ude80"',
    ],
    forbidden: ['{"a":1}', "[1,2]", "01", "+1", '"\\ud83d"', '"\t"', "undefined", "", "{} "],
  },
  type: {
    schema: { type: "boolean" },
    allowed: ["true", "false"],
    forbidden: ["null", "True", '"true"', " true"],
  },
  "several types": {
    schema: { type: ["string", "null"] },
    allowed: ["null", '""', '"null"'],
    forbidden: ["0", "[]"],
  },
  integer: {
    schema: { type: "integer" },
    allowed: ["0", "-17", "123456"],
    forbidden: ["1.5", "1e3", "007"],
  },
  number: {
    schema: { type: "number" },
    allowed: ["0", "-1.25", "6.02e23"],
    forbidden: ["1.", ".5", "1e400", "NaN"],
  },
  "minimum and maximum": {
    schema: { type: "integer", minimum: -12, maximum: 105 },
    allowed: ["-12", "-9", "0", "7", "99", "105"],
    forbidden: ["-13", "106", "-0", "1000", "100.0"],
  },
  "exclusive bounds": {
    schema: { type: "integer", exclusiveMinimum: 0, exclusiveMaximum: 10 },
    allowed: ["1", "9"],
    forbidden: ["0", "10", "-1"],
  },
  "bounds of fractions": {
    schema: { type: "number", minimum: -1, maximum: 1 },
    allowed: ["-1", "-0.5", "0", "0.25", "1"],
    forbidden: ["1.5", "-1.01", "2"],
  },
  enum: {
    schema: { enum: ["a/b", 3, null, { k: [1, "🇫🇷"] }] },
    allowed: ['"a/b"', "3", "null", '{"k": [1, "🇫🇷"]}'],
    forbidden: ['"a"', "33", '{"k": []}'],
  },
  "enum beside type": {
    schema: { type: "string", enum: ["a", "b", 1] },
    allowed: ['"a"', '"b"'],
    forbidden: ["1"],
  },
  const: { schema: { const: "  two  " }, allowed: ['"  two  "'], forbidden: ['" two "'] },
  anyOf: {
    schema: { anyOf: [{ type: "string" }, { type: "integer", minimum: 5 }] },
    allowed: ['"x"', "5"],
    forbidden: ["4", "true"],
  },
  "allOf of one": {
    schema: { allOf: [address], description: "where" },
    allowed: ['{"city": "Paris"}'],
    forbidden: ["{}"],
  },
  $ref: {
    schema: { type: "array", items: { $ref: "#/$defs/a~1b" }, $defs: { "a/b": address } },
    allowed: ["[]", '[{"city": "Paris"}, {"city": ""}]'],
    forbidden: ["[1]", "[{}]"],
  },
  recursion: {
    schema: {
      type: "object",
      properties: { name: { type: "string" }, children: { type: "array", items: { $ref: "#" } } },
      required: ["name"],
    },
    allowed: ['{"name": "a", "children": [{"name": "b", "children": []}]}', '{"name": "a"}'],
    forbidden: ['{"children": []}', '{"name": "a", "children": [{}]}'],
  },
  "properties and required": {
    schema: {
      type: "object",
      properties: { a: { type: "integer" }, b: { type: "boolean" }, 'c"': { type: "null" } },
      required: ["b"],
    },
    allowed: ['{"b": true}', '{"a": 1, "b": false}', '{"a": 1, "b": true, "c\\"": null}'],
    forbidden: ["{}", '{"a": 1}', '{"b": true, "a": 1}', '{"b": true, "d": 1}', '{"b": true, }'],
  },
  "no properties": {
    schema: { type: "object", properties: {} },
    allowed: ["{}"],
    forbidden: ['{"a": 1}'],
  },
  "additionalProperties false": {
    schema: { type: "object", additionalProperties: false },
    allowed: ["{}"],
    forbidden: ['{"a": 1}'],
  },
  "additionalProperties with a schema": {
    schema: {
      type: "object",
      properties: { ab: { type: "string" }, abc: { type: "string" } },
      additionalProperties: { type: "integer" },
    },
    allowed: ["{}", '{"ab": "x", "a": 1, "abcd": 2, "b": 3, "": 4}', '{"x": 1}'],
    forbidden: [
      '{"abc": 1}',
      '{"x": "1"}',
      '{"a": 1, "ab": 2}',
      '{"__proto__": 1}',
      '{"\\u0061b": 1}',
    ],
  },
  "an open object": {
    schema: { type: "object" },
    allowed: ["{}", '{"a": {"b": []}}'],
    forbidden: ["[]"],
  },
  items: {
    schema: { type: "array", items: { type: "integer" } },
    allowed: ["[]", "[1, 2]"],
    forbidden: ['["a"]', "[1,]"],
  },
  "minItems and maxItems": {
    schema: { type: "array", items: { type: "boolean" }, minItems: 2, maxItems: 3 },
    allowed: ["[true, true]", "[true, false, true]"],
    forbidden: ["[]", "[true]", "[true, true, true, true]"],
  },
  "minItems alone": {
    schema: { type: "array", items: { enum: [1] }, minItems: 2 },
    allowed: ["[1, 1]", "[1, 1, 1, 1, 1]"],
    forbidden: ["[1]"],
  },
  prefixItems: {
    schema: {
      type: "array",
      prefixItems: [{ type: "integer" }, { type: "string" }],
      items: { type: "null" },
    },
    allowed: ["[]", "[1]", '[1, "a"]', '[1, "a", null, null]'],
    forbidden: ['["a"]', "[1, 2]", '[1, "a", 1]'],
  },
  "prefixItems alone": {
    schema: { type: "array", prefixItems: [{ type: "integer" }], minItems: 1 },
    allowed: ["[1]"],
    forbidden: ["[]", "[1, 2]"],
  },
  "minLength and maxLength": {
    schema: { type: "string", minLength: 2, maxLength: 4 },
    allowed: ['"ab"', '"漢字é🚀"'],
    forbidden: ['"a"', '"abcde"', '""'],
  },
  "minLength alone": {
    schema: { type: "string", minLength: 1 },
    allowed: ['"a"', '"a\\n"'],
    forbidden: ['""'],
  },
  "maxLength alone": {
    schema: { type: "string", maxLength: 0 },
    allowed: ['""'],
    forbidden: ['"a"'],
  },
  pattern: {
    schema: { type: "string", pattern: "^(?:[A-Z]{2}-)?\\d+(\\.[a-f]*|x?)$" },
    allowed: ['"AB-1"', '"12"', '"12.ff"', '"1x"', '"1."'],
    forbidden: ['"A-1"', '"AB-"', '"1xx"', '"1.g"'],
  },
  "pattern with what JSON escapes": {
    schema: { type: "string", pattern: '^"\\\\\\n[^a]+$' },
    allowed: ['"\\"\\\\\\nb漢"'],
    forbidden: ['"\\"\\\\\\na"', '"\\"\\\\\\n""'],
  },
};

describe.each(Object.entries(KEYWORDS))("%s", (_, { schema, allowed, forbidden }) => {
  test("allows what is valid, and writes nothing else", async () => {
    for (const text of allowed) {
      expect(findViolation(schema, JSON.parse(text))).toBeUndefined();
      expect(`${text} ${String(await isAllowed(schema, text))}`).toBe(`${text} true`);
    }
    for (const text of forbidden) {
      expect(`${text} ${String(await isAllowed(schema, text))}`).toBe(`${text} false`);
    }
    await checkRandomTexts(schema, SEED);
  });
});

const PATTERNS = [
  "^.{3,6}$",
  "^[^\\s@]{1,5}@\\S{2,4}\\.\\w{2,3}$",
  "^(a|bc)*d?$",
  "^\\u00e9[\\x41-\\x43é-ü]{2}\\W$",
  "^[\\u{1F600}-\\u{1F64F}]+$",
  "x|yz+|^\\.$",
  "^(?<year>\\d{4})-\\D\\t?$",
];

test.each(PATTERNS)("random texts of the pattern %s match it", async (pattern) => {
  const constraint = await open({ type: "string", pattern });
  const bytes = writeRandomly(constraint, seededRandom(SEED));
  constraint.dispose();
  const text: unknown = JSON.parse(String(bytes));
  expect(text).toMatch(new RegExp(pattern, "u"));
});

const FORMATS = ["date", "time", "date-time", "uuid", "ipv4", "email", "uri"];

test.each(FORMATS)("random texts of the format %s are valid", async (format) => {
  await expect(checkRandomTexts({ type: "string", format }, SEED)).resolves.toBeUndefined();
});

const leaf = fc.oneof(
  fc.constantFrom<Schema[]>(
    { type: "string" },
    { type: "boolean" },
    { type: "null" },
    { type: "number" },
  ),
  fc.record({
    type: fc.constant("integer"),
    minimum: fc.integer({ min: -2000, max: 0 }),
    maximum: fc.integer({ min: 0, max: 2000 }),
  }),
  fc.record({
    type: fc.constant("string"),
    minLength: fc.nat(3),
    maxLength: fc.integer({ min: 3, max: 6 }),
  }),
  fc.record({
    enum: fc.uniqueArray(fc.oneof(fc.string(), fc.integer(), fc.constant(null)), {
      minLength: 1,
      maxLength: 4,
    }),
  }),
);

const { schema: arbitrarySchema } = fc.letrec<{ schema: Schema }>((tie) => ({
  schema: fc.oneof(
    { maxDepth: 3, depthIdentifier: "schema" },
    leaf,
    fc.record({ anyOf: fc.array(tie("schema"), { minLength: 1, maxLength: 3 }) }),
    fc.record({ type: fc.constant("array"), items: tie("schema"), minItems: fc.nat(2) }),
    fc
      .tuple(
        fc.dictionary(fc.string({ maxLength: 6 }), tie("schema"), {
          maxKeys: 4,
          noNullPrototype: true,
        }),
        fc.array(fc.boolean(), { minLength: 4, maxLength: 4 }),
        fc.oneof(fc.boolean(), tie("schema")),
      )
      .filter(([properties]) => !Object.hasOwn(properties, "__proto__"))
      .map(([properties, isRequired, additionalProperties]) => ({
        type: "object",
        properties,
        required: Object.keys(properties).filter((_, index) => isRequired[index]),
        additionalProperties,
      })),
  ),
}));

test("random texts of random schemas are valid JSON and valid against them", async () => {
  await fc.assert(fc.asyncProperty(arbitrarySchema, fc.integer(), checkRandomTexts), {
    numRuns: 25,
    seed: SEED,
  });
}, 120_000);
