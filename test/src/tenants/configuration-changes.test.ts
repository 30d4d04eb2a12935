import { expect, test } from "vitest";
import { changedFields } from "../../../src/tenants/configuration-changes.ts";

test("changedFields() names each field that differs by its path, with both values as JSON", () => {
  const before = { a: 1, b: { c: "x", d: [1, 2] }, e: true };
  const after = { a: 1, b: { c: "y", d: [2, 1] }, f: null };
  expect(changedFields(before, after)).toEqual([
    { path: "b.c", before: '"x"', after: '"y"' },
    { path: "b.d", before: "[1,2]", after: "[2,1]" },
    { path: "e", before: "true" },
    { path: "f", after: "null" },
  ]);
});

test("changedFields() finds nothing between equals, and everything where the kinds differ", () => {
  expect(changedFields({ a: { b: 1 } }, { a: { b: 1 } })).toEqual([]);
  expect(changedFields({ a: { b: 1 } }, { a: 1 })).toEqual([
    { path: "a", before: '{"b":1}', after: "1" },
  ]);
  expect(changedFields([1], { 0: 1 })).toEqual([{ path: "", before: "[1]", after: '{"0":1}' }]);
});

test("changedFields() compares things in a list by their names, wherever they stand", () => {
  const voice = { className: "voice", targets: { tbtMaxMs: 200 } };
  const batch = { className: 'bat"ch.1', targets: {} };
  expect(
    changedFields(
      { classes: [voice, batch] },
      { classes: [batch, { ...voice, targets: { tbtMaxMs: 100 } }] },
    ),
  ).toEqual([{ path: 'classes["voice"].targets.tbtMaxMs', before: "200", after: "100" }]);
  expect(changedFields({ classes: [voice] }, { classes: [voice, batch] })).toEqual([
    { path: 'classes["bat\\"ch.1"].className', after: '"bat\\"ch.1"' },
    { path: 'classes["bat\\"ch.1"].targets', after: "{}" },
  ]);
  // What was said of both is the same: only their order differs.
  expect(changedFields([voice, batch], [batch, voice])).toHaveLength(1);
  expect(changedFields([], [voice])).toEqual([
    { path: "", before: "[]", after: JSON.stringify([voice]) },
  ]);
});

test("changedFields() tells of what comes or goes each field", () => {
  expect(changedFields(undefined, { a: 1, b: { c: [2] } })).toEqual([
    { path: "a", after: "1" },
    { path: "b.c", after: "[2]" },
  ]);
  expect(changedFields({ a: { b: 1 } }, {})).toEqual([{ path: "a.b", before: "1" }]);
});

test("changedFields() takes names from a prototype for what they are: names", () => {
  const before: unknown = JSON.parse('{"__proto__":1,"constructor":2}');
  expect(changedFields(before, {})).toEqual([
    { path: "__proto__", before: "1" },
    { path: "constructor", before: "2" },
  ]);
});

test("changedFields() tells sixty-four fields at most", () => {
  const many = Object.fromEntries(Array.from({ length: 100 }, (_, at) => [`f${at}`, at]));
  expect(changedFields({}, many)).toHaveLength(64);
});
