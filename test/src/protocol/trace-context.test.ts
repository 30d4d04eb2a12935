import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { TraceContext } from "../../../src/protocol/trace-context.ts";
import {
  beginSpan,
  encodeTraceparent,
  parseTraceparent,
} from "../../../src/protocol/trace-context.ts";

const TRACE = "4bf92f3577b34da6a3ce929d0e0e4736";
const SPAN = "00f067aa0ba902b7";
const VALID = `00-${TRACE}-${SPAN}-01`;

function hex(digits: number): fc.Arbitrary<string> {
  const digit = fc.integer({ min: 0, max: 15 }).map((value) => value.toString(16));
  const text = fc.string({ unit: digit, minLength: digits, maxLength: digits });
  return text.filter((id) => /[^0]/.test(id));
}

const contexts: fc.Arbitrary<TraceContext> = fc.record({
  traceId: hex(32),
  spanId: hex(16),
  isSampled: fc.boolean(),
});

describe("parseTraceparent()", () => {
  test("reads back whatever encodeTraceparent() writes", () => {
    fc.assert(
      fc.property(contexts, (context) => {
        expect(parseTraceparent(encodeTraceparent(context))).toEqual(context);
      }),
    );
  });

  test("reads the example of the specification", () => {
    expect(parseTraceparent(VALID)).toEqual({ traceId: TRACE, spanId: SPAN, isSampled: true });
  });

  test.each([
    ["00", false],
    ["01", true],
    ["02", false],
    ["fe", false],
    ["ff", true],
  ])("of the flags %s only the last bit says whether it is recorded", (flags, isSampled) => {
    expect(parseTraceparent(`00-${TRACE}-${SPAN}-${flags}`)).toMatchObject({ isSampled });
  });

  test.each([
    ["is there not at all", undefined],
    ["is empty", ""],
    ["has a trace of zeros", `00-${"0".repeat(32)}-${SPAN}-01`],
    ["has a span of zeros", `00-${TRACE}-${"0".repeat(16)}-01`],
    ["has capital letters", VALID.toUpperCase()],
    ["has a digit too few", `00-${TRACE.slice(1)}-${SPAN}-01`],
    ["has a digit too many", `00-${TRACE}-${SPAN}a-01`],
    ["has a space before it", ` ${VALID}`],
    ["has something behind it in version 00", `${VALID}-more`],
    ["has something else than a dash behind it", `01-${TRACE}-${SPAN}-01.more`],
    ["is of the version that never is", `ff-${TRACE}-${SPAN}-01`],
    ["came twice", `${VALID}, ${VALID}`],
    ["has a line feed at its end", `${VALID}\n`],
  ])("ignores one that %s", (_what, header) => {
    expect(parseTraceparent(header)).toBeUndefined();
  });

  test("takes of a version to come what it knows", () => {
    expect(parseTraceparent(`cc-${TRACE}-${SPAN}-01-what-the-future-holds`)).toEqual({
      traceId: TRACE,
      spanId: SPAN,
      isSampled: true,
    });
  });

  test("whatever it is given, what it takes for valid can be sent on", () => {
    const piece = fc.constantFrom(
      "00",
      "01",
      "ff",
      TRACE,
      SPAN,
      "-",
      "-",
      "-",
      "0".repeat(16),
      "g",
    );
    const texts = fc.oneof(
      fc.string(),
      fc.array(piece, { maxLength: 9 }).map((all) => all.join("")),
    );
    fc.assert(
      fc.property(texts, (header) => {
        const context = parseTraceparent(header);
        if (context === undefined) return;
        expect(encodeTraceparent(context)).toMatch(/^00-[0-9a-f]{32}-[0-9a-f]{16}-0[01]$/);
        expect(parseTraceparent(encodeTraceparent(context))).toEqual(context);
      }),
    );
  });
});

describe("beginSpan()", () => {
  const ids = { traceId: "a".repeat(32), spanId: "b".repeat(16) };

  test("goes on in the trace that there is, under a span of its own", () => {
    expect(beginSpan(parseTraceparent(VALID), ids)).toEqual({
      traceId: TRACE,
      spanId: ids.spanId,
      isSampled: true,
    });
  });

  test("begins a trace that nobody records where there is none", () => {
    expect(beginSpan(undefined, ids)).toEqual({ ...ids, isSampled: false });
  });
});
