import assert from "node:assert/strict";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  type ToolCallPart,
  ToolCallParser,
} from "../../../../gpu-backend/engine/structured/tool-call-parser.ts";

/** What an answer says in all, whatever pieces it came in. */
interface Reading {
  text: string;
  calls: { name: string; arguments: string }[];
}

function read(pieces: readonly string[]): Reading {
  const parser = new ToolCallParser();
  const reading: Reading = { text: "", calls: [] };
  const take = (part: ToolCallPart) => {
    if (part.kind === "text") {
      reading.text += part.text;
    } else if (part.kind === "call-started") {
      assert.equal(part.index, reading.calls.length, "Calls are counted in order");
      reading.calls.push({ name: part.name, arguments: "" });
    } else {
      const call = reading.calls.at(-1);
      assert(call !== undefined, "A call has started before its arguments");
      assert.equal(part.index, reading.calls.length - 1, "Arguments belong to the last call");
      assert.notEqual(part.text, "", "No part is empty");
      call.arguments += part.text;
    }
  };
  for (const piece of pieces) parser.push(piece).forEach(take);
  parser.end().forEach(take);
  return reading;
}

const call = (name: string, value: unknown) =>
  `<tool_call>{"name": "${name}", "arguments": ${JSON.stringify(value)}}</tool_call>`;

/** Cuts a text at places drawn from a seed, also into empty pieces. */
function cut(text: string, places: readonly number[]): string[] {
  const ends = places.map((place) => place % (text.length + 1)).toSorted((a, b) => a - b);
  return [...ends, text.length].map((end, index) => text.slice(ends[index - 1] ?? 0, end));
}

const NOT_A_CALL = fc
  .array(fc.constantFrom("<", "<tool_call>", "</tool_call>", "{", "}", '"', "a ", "é😀", "name"))
  .map((parts) => parts.join(""))
  .filter((text) => !text.includes("<tool_call>"));

const CALL = fc.record({
  name: fc.stringMatching(/^[\w-]{1,20}$/),
  value: fc.dictionary(
    fc.string(),
    fc.json().map((json): unknown => JSON.parse(json)),
    { maxKeys: 3 },
  ),
});

describe("ToolCallParser", () => {
  test("text and calls are told apart however the answer is cut", () => {
    fc.assert(
      fc.property(
        fc.array(fc.tuple(NOT_A_CALL, CALL), { maxLength: 3 }),
        NOT_A_CALL,
        fc.array(fc.nat(), { maxLength: 40 }),
        (between, last, places) => {
          const answer = between
            .map(([text, { name, value }]) => text + call(name, value))
            .join("");
          expect(read(cut(answer + last, places))).toEqual({
            text: between.map(([text]) => text).join("") + last,
            calls: between.map(([, { name, value }]) => ({
              name,
              arguments: JSON.stringify(value),
            })),
          });
        },
      ),
      { numRuns: 500 },
    );
  });

  test("every single cut of an answer with two calls gives the same parts", () => {
    const answer = `Hi <b>${call("a", { "}": '"}</tool_call>' })}\n${call("b", {})}<`;
    const whole = read([answer]);
    expect(whole.calls).toHaveLength(2);
    for (let place = 0; place <= answer.length; place += 1) {
      expect(read([answer.slice(0, place), answer.slice(place)])).toEqual(whole);
    }
    expect(read(Array.from({ length: answer.length }, (_, index) => answer.charAt(index)))).toEqual(
      whole,
    );
  });

  test("text that cannot become a call is passed on at once", () => {
    const parser = new ToolCallParser();
    expect(parser.push("one < two <tool")).toEqual([{ kind: "text", text: "one < two " }]);
    expect(parser.push("box>")).toEqual([{ kind: "text", text: "<toolbox>" }]);
  });

  test("a name is told before the arguments, and those as they come", () => {
    const parser = new ToolCallParser();
    expect(parser.push('<tool_call>{"name": "f')).toEqual([]);
    expect(parser.push('ind", "arguments": {"a"')).toEqual([
      { kind: "call-started", index: 0, name: "find" },
      { kind: "call-arguments", index: 0, text: '{"a"' },
    ]);
    expect(parser.push(": 1}}</tool")).toEqual([
      { kind: "call-arguments", index: 0, text: ": 1}" },
    ]);
    expect(parser.push("_call>")).toEqual([]);
    expect(parser.end()).toEqual([]);
    expect(parser.calls).toBe(1);
  });

  test("an answer cut off within a call shows nothing of the marks around it", () => {
    const answer = call("find", { text: "x" });
    for (let length = "<tool_call>".length; length < answer.length; length += 1) {
      const reading = read([answer.slice(0, length)]);
      expect(reading.text).toBe("");
      for (const { arguments: text } of reading.calls) {
        expect('{"text":"x"}'.startsWith(text)).toBe(true);
      }
    }
  });

  test("half a marker at the end of an answer was text", () => {
    expect(read(["less is <tool"])).toEqual({ text: "less is <tool", calls: [] });
  });
});
