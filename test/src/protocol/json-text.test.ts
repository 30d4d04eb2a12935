import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { editMembers } from "../../../src/protocol/json-text.ts";

/** The process's own time, of which other programs on the machine take none. */
function editingMicroseconds(repeats: number): number {
  const json = JSON.stringify({ text: '\\"'.repeat(repeats), model: "up" });
  const before = process.cpuUsage();
  editMembers(json, { model: '"alias"' });
  const { user, system } = process.cpuUsage(before);
  return user + system;
}

describe("editMembers", () => {
  test("a member is set in its place and the others keep their text", () => {
    expect(
      editMembers('{ "id" : 9007199254740993 , "model":"up", "x": [1.0, {"model": "inner"}] }', {
        model: '"alias"',
      }),
    ).toBe('{"id" : 9007199254740993,"model":"alias","x": [1.0, {"model": "inner"}]}');
  });

  test("a member that is missing is added at the end", () => {
    expect(editMembers("{}", { a: "1" })).toBe('{"a":1}');
    expect(editMembers('{"b":2}', { a: "1" })).toBe('{"b":2,"a":1}');
  });

  test("a member is removed wherever it stands", () => {
    expect(editMembers('{"a":1,"b":2,"c":3}', { a: undefined })).toBe('{"b":2,"c":3}');
    expect(editMembers('{"a":1,"b":2,"c":3}', { c: undefined })).toBe('{"a":1,"b":2}');
    expect(editMembers('{"a":1}', { a: undefined, z: undefined })).toBe("{}");
  });

  test("a second member of the same name cannot survive the edit", () => {
    expect(editMembers('{"model":"a","x":1,"model":"b"}', { model: '"c"' })).toBe(
      '{"model":"c","x":1}',
    );
    expect(editMembers('{"salt":"a","salt":"b"}', { salt: undefined })).toBe("{}");
  });

  test("a name written with escapes is the same name", () => {
    expect(editMembers('{"cache\\u005fsalt":"mine","x":1}', { cache_salt: undefined })).toBe(
      '{"x":1}',
    );
  });

  test("names of Object.prototype are ordinary names", () => {
    expect(editMembers('{"__proto__":{"a":1},"toString":2}', { a: undefined })).toBe(
      '{"__proto__":{"a":1},"toString":2}',
    );
  });

  test("for any object and any whitespace, the edit equals the edit of the parsed value", () => {
    const name = fc.constantFrom("a", "b", "", '"', "\\", 'x"y', "é", "{", ",");
    fc.assert(
      fc.property(
        fc.dictionary(fc.oneof(name, fc.string()), fc.jsonValue({ maxDepth: 3 })),
        fc.constantFrom(undefined, 1, "\t", " \r\n"),
        fc.dictionary(name, fc.option(fc.jsonValue({ maxDepth: 1 }), { nil: undefined })),
        (object, space, changes) => {
          const edits = Object.fromEntries(
            Object.entries(changes).map(([key, value]) => [key, JSON.stringify(value)]),
          );
          const edited: unknown = JSON.parse(
            editMembers(JSON.stringify(object, null, space), edits),
          );
          const expected: unknown = JSON.parse(JSON.stringify({ ...object, ...changes }));
          expect(edited).toEqual(expected);
        },
      ),
      { numRuns: 500 },
    );
  });

  test("a text full of escaped quotes and backslashes costs linear work", () => {
    // In turns, and the best of many: whatever else the machine does then meets both.
    const pairs = Array.from(
      { length: 15 },
      () => [editingMicroseconds(50_000), editingMicroseconds(400_000)] as const,
    );
    const small = Math.min(...pairs.map(([microseconds]) => microseconds));
    const large = Math.min(...pairs.map(([, microseconds]) => microseconds));
    // Linear is 8 and quadratic 64.
    expect(large / small).toBeLessThan(24);
  });
});
