import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { SseFrame } from "../../../src/protocol/sse.ts";
import { encodeSseFrame, SseDecoder } from "../../../src/protocol/sse.ts";

const EVENT_BYTES_MAX = 4_194_304;
const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
const encoder = new TextEncoder();

const newDecoder = (eventBytesMax = EVENT_BYTES_MAX) =>
  new SseDecoder({ decodeUtf8: (bytes) => decoder.decode(bytes), eventBytesMax });

function decodePieces(pieces: readonly Uint8Array[]): SseFrame[] {
  const sse = newDecoder();
  return pieces.flatMap((piece) => [...sse.push(piece).frames]);
}

const decodeText = (text: string) => decodePieces([encoder.encode(text)]);

/** Cuts at the given fractions of the length; equal fractions give empty pieces on purpose. */
function cut(bytes: Uint8Array, fractions: readonly number[]): Uint8Array[] {
  const marks = [0, ...fractions.map((f) => Math.floor(f * bytes.length)), bytes.length];
  const sorted = marks.toSorted((a, b) => a - b);
  return sorted.slice(1).map((end, index) => bytes.slice(sorted[index], end));
}

/** The event-stream grammar of the HTML standard, applied to the whole text at once. */
function parseWholeText(text: string): SseFrame[] {
  const frames: SseFrame[] = [];
  let event = "";
  let data: string[] = [];
  const lines = text.replace(/^\uFEFF/, "").split(/\r\n|\n|\r/);
  // What follows the last line end is an unfinished line.
  for (const line of lines.slice(0, -1)) {
    if (line === "") {
      if (data.length > 0) {
        frames.push(event === "" ? { data: data.join("\n") } : { event, data: data.join("\n") });
      }
      event = "";
      data = [];
      continue;
    }
    const [, name, value = ""] = /^([^:]*)(?:: ?(.*))?$/su.exec(line) ?? [];
    if (name === "data") data.push(value);
    if (name === "event") event = value;
  }
  return frames;
}

/**
 * What one large event costs that arrives in pieces as small as workerd's: the process's own time, of
 * which other programs on the machine take none.
 */
function decodingMicroseconds(eventBytes: number): number {
  const bytes = encoder.encode(`data: ${"x".repeat(eventBytes)}\n\n`);
  const sse = newDecoder();
  const before = process.cpuUsage();
  let frameCount = 0;
  for (let at = 0; at < bytes.length; at += 27) {
    frameCount += sse.push(bytes.subarray(at, at + 27)).frames.length;
  }
  expect(frameCount).toBe(1);
  const { user, system } = process.cpuUsage(before);
  return user + system;
}

describe("SseDecoder", () => {
  test.each([
    ["a space after the colon is dropped, once", "data:  x\n\n", [{ data: " x" }]],
    ["no space after the colon is fine", "data:x\n\n", [{ data: "x" }]],
    ["CRLF ends lines", "data: x\r\n\r\n", [{ data: "x" }]],
    ["CR alone ends lines", "data: x\r\rdata: y\r\r", [{ data: "x" }, { data: "y" }]],
    ["line ends may be mixed", "data: x\r\n\ndata: y\n\r\n", [{ data: "x" }, { data: "y" }]],
    ["several data lines are joined by LF", "data: a\ndata\ndata: b\n\n", [{ data: "a\n\nb" }]],
    ["the event's name comes along", "event: error\ndata: x\n\n", [{ event: "error", data: "x" }]],
    ["the name counts for one event", "event: e\n\ndata: x\n\n", [{ data: "x" }]],
    ["comments are no frames", ": keep-alive\n\n:\ndata: x\n\n", [{ data: "x" }]],
    ["other fields are no frames", "id: 1\nretry: 5\ndatum: 2\n\n", []],
    ["empty data is a frame", "data\n\n", [{ data: "" }]],
    ["a byte order mark at the start is dropped", "\uFEFFdata: x\n\n", [{ data: "x" }]],
    ["a later byte order mark is text", "data: \uFEFFx\n\n", [{ data: "\uFEFFx" }]],
    ["an event without its blank line is not delivered", "data: a\n\ndata: b\n", [{ data: "a" }]],
  ])("%s", (_, text, frames) => {
    expect(decodeText(text)).toEqual(frames);
    expect(decodePieces(Array.from(encoder.encode(text), (byte) => Uint8Array.of(byte)))).toEqual(
      frames,
    );
  });

  test("the same frames come out however the bytes are cut, and agree with a whole-text parser", () => {
    const piece = fc.oneof(
      fc.constantFrom("\n", "\r", "\r\n", "\n\n", ":", ": ", " ", "data", "data: ", "event: "),
      fc.constantFrom("\uFEFF", "é", "漢", "👩‍👩‍👧", "\u2028", '{"a":1}', "[DONE]"),
      fc.string({ unit: "grapheme", maxLength: 6 }),
    );
    fc.assert(
      fc.property(
        fc.array(piece, { maxLength: 40 }),
        fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { maxLength: 12 }),
        (pieces, fractions) => {
          const text = pieces.join("");
          const bytes = encoder.encode(text);
          const expected = parseWholeText(text);
          expect(decodePieces(cut(bytes, fractions))).toEqual(expected);
          expect(decodePieces(Array.from(bytes, (byte) => Uint8Array.of(byte)))).toEqual(expected);
        },
      ),
      { numRuns: 500 },
    );
  });

  test("bytes that are no UTF-8 become replacement characters and spoil nothing else", () => {
    const bytes = Uint8Array.of(...encoder.encode("data: a"), 0xff, 0xc3, 0x0a, 0x0a);
    expect(decodePieces([bytes, encoder.encode("data: b\n\n")])).toEqual([
      { data: "a\uFFFD\uFFFD" },
      { data: "b" },
    ]);
  });

  test("an event of exactly the limit passes and one byte more is refused", () => {
    const event = encoder.encode("data: 12345\ndata: 6\n");
    const end = encoder.encode("\n");
    const roomy = newDecoder(event.length);
    roomy.push(event);
    expect(roomy.push(end)).toEqual({ kind: "decoded", frames: [{ data: "12345\n6" }] });

    const tight = newDecoder(event.length - 1);
    tight.push(event);
    expect(tight.push(end)).toEqual({ kind: "event-too-large", frames: [] });
  });

  test("a line that never ends is refused at the limit, after the frames that came before it", () => {
    const sse = newDecoder(100);
    const first = sse.push(encoder.encode(`data: a\n\ndata: ${"x".repeat(100)}`));
    expect(first).toEqual({ kind: "event-too-large", frames: [{ data: "a" }] });
    expect(sse.push(encoder.encode("\n\ndata: b\n\n"))).toEqual({
      kind: "event-too-large",
      frames: [],
    });
  });

  test("an endless comment is refused, endless short comments are not", () => {
    expect(newDecoder(100).push(encoder.encode(`:${"x".repeat(100)}`)).kind).toBe(
      "event-too-large",
    );
    const sse = newDecoder(100);
    for (let count = 0; count < 1000; count++) sse.push(encoder.encode(": keep-alive\n\n"));
    expect(sse.push(encoder.encode("data: x\n\n")).frames).toEqual([{ data: "x" }]);
  });

  test("comment lines inside one event do not use up its limit", () => {
    const sse = newDecoder(100);
    for (let count = 0; count < 1000; count++) sse.push(encoder.encode(": keep-alive\n"));
    expect(sse.push(encoder.encode("data: x\n\n")).frames).toEqual([{ data: "x" }]);
  });

  test("an event of eight times the size costs about eight times the work, not its square", () => {
    const small = Math.min(...Array.from({ length: 5 }, () => decodingMicroseconds(250_000)));
    const large = Math.min(...Array.from({ length: 5 }, () => decodingMicroseconds(2_000_000)));
    // Linear is 8 and quadratic 64.
    expect(large / small).toBeLessThan(24);
  });
});

describe("encodeSseFrame", () => {
  test("what it writes is decoded to the same frame, with line ends as LF", () => {
    fc.assert(
      fc.property(
        fc.string({ unit: "grapheme" }),
        fc.option(fc.constantFrom("error", "delta"), { nil: undefined }),
        (data, event) => {
          const frame = event === undefined ? { data } : { event, data };
          expect(decodeText(encodeSseFrame(frame))).toEqual([
            { ...frame, data: data.replaceAll(/\r\n|\r/g, "\n") },
          ]);
        },
      ),
    );
  });

  test("a frame ends in two LF, which is all that simple clients split on", () => {
    expect(encodeSseFrame({ event: "error", data: "{}" })).toBe("event: error\ndata: {}\n\n");
    expect(encodeSseFrame({ data: "[DONE]" })).toBe("data: [DONE]\n\n");
  });
});
