import { describe, expect, test } from "vitest";
import * as z from "zod";
import { faultOf, validate } from "../../../src/protocol/validation.ts";

function problemOf(schema: z.ZodType, body: unknown) {
  const validated = validate(schema, body);
  if (validated.kind === "valid") throw new Error("Expected a problem, found a valid body");
  return validated.problem;
}

const problemWithSize = (schema: z.ZodType, size: number) =>
  problemOf(z.object({ size: schema }), { size });

describe("validate", () => {
  test("a valid body becomes the schema's output", () => {
    const schema = z.object({ size: z.string().transform(Number) });
    expect(validate(schema, { size: "3" })).toEqual({ kind: "valid", value: { size: 3 } });
  });

  test("the first fault in the schema's order is the problem", () => {
    const schema = z.object({ a: z.string(), b: z.string() });
    expect(problemOf(schema, { b: 1, a: 2 }).param).toBe("a");
  });

  test("what is absent or null is missing, with what was expected there", () => {
    const schema = z.object({ a: z.object({ b: z.string() }) });
    for (const a of [{}, { b: null }]) {
      expect(problemOf(schema, { a })).toEqual({
        code: "missing_required_parameter",
        message: "Missing required parameter 'a.b': expected a string",
        param: "a.b",
      });
    }
  });

  test("a bound that is not allowed itself is told as such", () => {
    expect(problemWithSize(z.int().positive(), 0).message).toBe(
      "Expected 'size' to be more than 0, found 0",
    );
    expect(problemWithSize(z.number().min(0), -1).message).toBe(
      "Expected 'size' to be at least 0, found -1",
    );
    expect(problemWithSize(z.number().lt(1), 1).message).toBe(
      "Expected 'size' to be less than 1, found 1",
    );
    expect(problemWithSize(z.number().max(1), 2).message).toBe(
      "Expected 'size' to be at most 1, found 2",
    );
  });

  test("a param is written as a path with indices in brackets", () => {
    const schema = z.object({ rows: z.array(z.object({ cells: z.array(z.int()) })) });
    const body = { rows: [{ cells: [] }, { cells: [1, 2, 3.5] }] };
    expect(problemOf(schema, body)).toEqual({
      code: "invalid_type",
      message: "Expected 'rows[1].cells[2]' to be an integer, found 3.5",
      param: "rows[1].cells[2]",
    });
  });

  test("a fault of the whole body has no param", () => {
    expect(problemOf(z.object({}), [])).toEqual({
      code: "invalid_type",
      message: "Expected the request body to be an object, found a list of 0",
    });
  });

  test.each([
    ["too few elements", z.array(z.int()).min(1), [], "empty_array"],
    ["too many elements", z.array(z.int()).max(1), [1, 2], "array_above_max_length"],
    ["an empty string", z.string().min(1), "", "invalid_value"],
    ["too long a string", z.string().max(2), "abc", "string_above_max_length"],
    ["too small a number", z.number().min(0), -0.5, "decimal_below_min_value"],
    ["too large a number", z.number().max(0), 0.5, "decimal_above_max_value"],
    ["an integer that no double holds", z.int(), 2 ** 60, "integer_above_max_value"],
    ["a fraction for an integer", z.int(), 1.5, "invalid_type"],
    ["a name off the list", z.enum(["a", "b"]), "c", "invalid_value"],
    ["a malformed address", z.url(), "nowhere", "invalid_value"],
  ] as const)("%s has a code of its own", (_, schema, value, code) => {
    expect(problemOf(z.object({ field: schema }), { field: value })).toMatchObject({
      code,
      param: "field",
    });
  });

  describe("unions", () => {
    const schema = z.object({
      content: z.union([z.string().max(9), z.array(z.object({ text: z.string() }))]),
    });

    test("a value of none of the types names them all", () => {
      expect(problemOf(schema, { content: 3 })).toEqual({
        code: "invalid_type",
        message: "Expected 'content' to be a string or a list, found 3",
        param: "content",
      });
    });

    test("a fault inside the alternative that fits is told as such", () => {
      expect(problemOf(schema, { content: [{ text: "a" }, {}] })).toMatchObject({
        code: "missing_required_parameter",
        param: "content[1].text",
      });
      expect(problemOf(schema, { content: "0123456789" }).code).toBe("string_above_max_length");
    });

    test("an unknown discriminator lists the known ones", () => {
      const shapes = z.discriminatedUnion("kind", [
        z.object({ kind: z.literal("circle") }),
        z.object({ kind: z.enum(["square", "box"]) }),
      ]);
      expect(problemOf(z.array(shapes), [{ kind: "line" }])).toEqual({
        code: "invalid_value",
        message: 'Expected \'[0].kind\' to be "circle" or "square" or "box", found "line"',
        param: "[0].kind",
      });
      expect(problemOf(shapes, {}).code).toBe("missing_required_parameter");
    });
  });

  describe("faultOf", () => {
    test("a refinement says its own code and expectation", () => {
      const even = z.int().refine((n) => n % 2 === 0, faultOf("unsupported_value", "even"));
      expect(problemOf(z.object({ n: even }), { n: 3 })).toEqual({
        code: "unsupported_value",
        message: "Expected 'n' to be even, found 3",
        param: "n",
      });
    });

    test("a refinement without a code of ours is an invalid value", () => {
      const refined = z.string().refine(() => false, { error: "fine", params: { code: "nope" } });
      expect(problemOf(refined, "x").code).toBe("invalid_value");
    });
  });

  test("a text is told by its length, unless only names of ours are allowed there", () => {
    expect(problemOf(z.object({ limit: z.number() }), { limit: "sesame" }).message).toBe(
      "Expected 'limit' to be a number, found a string of length 6",
    );
    expect(problemOf(z.object({ level: z.enum(["low"]) }), { level: "lowest" }).message).toBe(
      'Expected \'level\' to be "low", found "lowest"',
    );
  });

  test("a message never carries a long text or key away", () => {
    const secret = "sesame".repeat(50);
    const schema = z.object({
      level: z.enum(["low", "high"]).optional(),
      limit: z.number().optional(),
      labels: z.record(z.string(), z.number()).optional(),
    });
    for (const body of [{ level: secret }, { limit: secret }, { labels: { [secret]: secret } }]) {
      const problem = problemOf(schema, body);
      expect(problem.message?.length).toBeLessThan(200);
      expect(JSON.stringify(problem)).not.toContain("sesame".repeat(10));
    }
  });
});
