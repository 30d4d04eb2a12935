import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { MessageReader, readMessage } from "../../../gpu-backend/server/message-reader.ts";

const CALL = '<tool_call>{"name": "look", "arguments": {"at": "<tool_call>"}}</tool_call>';
const TOOLS = { mayCallTools: true };

/** The first delta of a choice, for a text in these pieces. */
function deltasOf(pieces: readonly string[], options = TOOLS) {
  const reader = new MessageReader(options);
  return [...pieces.flatMap((piece) => reader.push(piece)), ...reader.end()];
}

describe("MessageReader", () => {
  test("the first delta has the role, though nothing of the text is certain yet", () => {
    const reader = new MessageReader(TOOLS);
    expect(reader.push("<tool")).toEqual([{ role: "assistant" }]);
    expect(reader.push(" box")).toEqual([{ content: "<tool box" }]);
  });

  test("a call is told by its id and name first, then by pieces of its arguments", () => {
    const [first, ...others] = deltasOf([CALL.slice(0, 45), CALL.slice(45)]);
    expect(first).toEqual({
      role: "assistant",
      tool_calls: [
        {
          index: 0,
          id: expect.stringMatching(/^call_[0-9a-f]{24}$/),
          type: "function",
          function: { name: "look", arguments: "" },
        },
      ],
    });
    const pieces = others.map((delta) => delta.tool_calls?.[0]);
    expect(pieces.every((piece) => piece?.id === undefined && piece?.index === 0)).toBe(true);
    expect(pieces.map((piece) => piece?.function.arguments).join("")).toBe('{"at": "<tool_call>"}');
  });

  test("where no tool may be called, calls are text", () => {
    expect(deltasOf([CALL], { mayCallTools: false })).toEqual([
      { role: "assistant", content: CALL },
    ]);
  });

  test("any way to cut an answer gives the message that it is as a whole", () => {
    const answers = fc.constantFrom("Hm. ", "", CALL, CALL + CALL, `So: ${CALL}`);
    fc.assert(
      fc.property(answers, fc.array(fc.nat(160)), (answer, cuts) => {
        const ends = [...new Set([...cuts, answer.length])].toSorted((a, b) => a - b);
        const pieces = ends.map((end, index) => answer.slice(ends[index - 1] ?? 0, end));
        const deltas = deltasOf(pieces);
        const whole = readMessage(answer, TOOLS);
        expect(deltas.map((delta) => delta.content ?? "").join("")).toBe(whole.content ?? "");
        const json = deltas.flatMap((delta) => delta.tool_calls ?? []);
        expect(json.map((call) => call.function.arguments).join("")).toBe(
          whole.toolCalls.map((call) => call.function.arguments).join(""),
        );
      }),
    );
  });

  test("only a complete answer with calls ended to have them made", () => {
    const message = readMessage(CALL, TOOLS);
    expect(message.content).toBeNull();
    expect(message.finishReason("stop")).toBe("tool_calls");
    expect(message.finishReason("length")).toBe("length");
    expect(readMessage("Hm.", TOOLS).finishReason("stop")).toBe("stop");
  });
});
