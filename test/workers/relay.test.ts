import { describe, expect, test, vi } from "vitest";
import { FINISH_FRAME, ROLE_FRAME, streamThatGoesOn, tokenFrame } from "./support/answers.ts";
import {
  aGateway,
  becomesIdle,
  COMPLETION_PATH,
  errorEvent,
  readEvents,
  textOf,
  WAIT,
} from "./support/gateway.ts";
import {
  completionFrame,
  chunkFrame,
  DONE_FRAME,
  EVENT_STREAM_HEAD,
  streamedAnswer,
} from "./support/upstream.ts";

const STREAM = { body: { stream: true } };
const END = { kind: "end" } as const;
/** The first byte of an é. */
const HALF_CHARACTER = { kind: "bytes" as const, base64: btoa("\u00c3") };
const text = (content: string) => ({ kind: "text" as const, text: content });
const pause = (ms: number) => ({ kind: "pause" as const, ms });

function upstreamChunk(delta: object, finish: string | null = null): string {
  return JSON.stringify({ model: "up", choices: [{ index: 0, delta, finish_reason: finish }] });
}

const FORMS = [
  {
    form: "chat",
    wish: STREAM,
    begun: streamThatGoesOn(["One", " two"], pause(20)),
    finish: (reason: string) => chunkFrame({ finish_reason: reason }),
  },
  {
    form: "completion",
    wish: { path: COMPLETION_PATH, body: { prompt: "Count", stream: true } },
    begun: [
      EVENT_STREAM_HEAD,
      completionFrame({ text: "One" }),
      completionFrame({ text: " two" }),
      pause(20),
    ],
    finish: (reason: string) => completionFrame({ finish_reason: reason }),
  },
];

describe.each(FORMS)("a stream of a $form", ({ wish, begun, finish }) => {
  test.each([
    ["by a reset", [{ kind: "reset" as const }]],
    ["by ending without a finish_reason", [END]],
    ["by an end marker without a finish_reason", [DONE_FRAME, END]],
    ["by an error object under status 200", [text('data: {"error":{"message":"no"}}\n\n'), END]],
    ["by an event named error", [text('event: error\ndata: {"error":"no"}\n\n'), END]],
    ["by garbage", [text("data: <html>\n\n"), END]],
    ["by a finish_reason of error", [finish("error"), DONE_FRAME, END]],
    ["in the middle of an event", [text('data: {"choices":[{"ind'), END]],
    ["in the middle of a character", [text('data: {"choices":[{"text":"'), HALF_CHARACTER, END]],
  ])("that breaks %s ends in exactly one error event after the tokens so far", async (_, steps) => {
    const gateway = await aGateway();
    await gateway.upstream.answerWith([...begun, ...steps]);
    const response = await gateway.ask(wish);
    expect(response.status).toBe(200);
    const events = await readEvents(response);
    expect(textOf(events)).toBe("One two");
    expect(events.at(-1)).toEqual(errorEvent("upstream_error"));
    const names = events.filter(({ event, data }) => event !== undefined || data === "[DONE]");
    expect(names).toHaveLength(1);
    await becomesIdle(gateway);
    expect(await gateway.upstream.requests()).toHaveLength(1);
  });

  test("that has no counts, or no end marker either, is whole all the same", async () => {
    const gateway = await aGateway();
    for (const rest of [[DONE_FRAME], []]) {
      // oxlint-disable-next-line no-await-in-loop -- one script after the other
      await gateway.upstream.answerWith([...begun, finish("stop"), ...rest, END]);
      // oxlint-disable-next-line no-await-in-loop -- as above
      const events = await readEvents(await gateway.ask(wish));
      expect(textOf(events)).toBe("One two");
      expect(events.filter(({ data }) => data === "[DONE]")).toHaveLength(1);
      expect(events.at(-1)).toEqual({ data: "[DONE]" });
    }
    await becomesIdle(gateway);
  });
});

test("streams that end well leave their connections to those that follow", async () => {
  const gateway = await aGateway();
  await gateway.upstream.answerWith(streamedAnswer(["One"]));
  for (let count = 0; count < 10; count++) {
    // oxlint-disable-next-line no-await-in-loop -- one after another
    await readEvents(await gateway.ask(STREAM));
  }
  const ports = (await gateway.upstream.requests()).map(({ fromPort }) => fromPort);
  expect(new Set(ports).size).toBeLessThan(5);
});

describe("a stream that breaks", () => {
  test("shows nothing of what the replica says behind the break", async () => {
    const { ask, upstream } = await aGateway();
    await upstream.answerWith(
      streamThatGoesOn(
        ["a"],
        text('data: {"error":"no"}\n\n'),
        tokenFrame("b"),
        FINISH_FRAME,
        DONE_FRAME,
        END,
      ),
    );
    const events = await readEvents(await ask(STREAM));
    expect(textOf(events)).toBe("a");
    expect(events.at(-1)).toEqual(errorEvent("upstream_error"));
  });

  test("is closed towards the replica, who may still be talking", async () => {
    const gateway = await aGateway();
    await gateway.upstream.answerWith(
      streamThatGoesOn(["a"], text("data: {\n\n"), { kind: "hang" }),
    );
    await readEvents(await gateway.ask(STREAM));
    await becomesIdle(gateway);
    await vi.waitFor(async () => {
      expect(await gateway.upstream.requests()).toMatchObject([{ closedEarly: true }]);
    }, WAIT);
  });
});

describe("a stream that is whole in spite of its form", () => {
  test.each([
    ["has no end marker", streamThatGoesOn(["All good"], FINISH_FRAME, END)],
    [
      "is reset behind its last text",
      streamThatGoesOn(["All good"], FINISH_FRAME, pause(50), { kind: "reset" as const }),
    ],
    [
      "stays open behind its last text",
      streamThatGoesOn(["All good"], FINISH_FRAME, { kind: "hang" as const }),
    ],
  ])("and %s ends in one [DONE]", async (_, steps) => {
    const gateway = await aGateway();
    await gateway.upstream.answerWith(steps);
    const events = await readEvents(await gateway.ask(STREAM));
    expect(textOf(events)).toBe("All good");
    expect(events.filter(({ data }) => data === "[DONE]")).toHaveLength(1);
    expect(events.at(-1)).toEqual({ data: "[DONE]" });
    await becomesIdle(gateway);
  });

  test("is read with CRLF, without spaces, with comments, and cut anywhere", async () => {
    const { ask, upstream } = await aGateway({ modelId: "alias" });
    await upstream.answerWith([
      EVENT_STREAM_HEAD,
      text(": warming up\r\n\r\n"),
      text(`data:${upstreamChunk({ role: "assistant", content: "" })}\r\n\r\n`),
      text(`data:${upstreamChunk({ content: "Blue" })}\r`),
      pause(20),
      text("\n\r\n: still here\r\n"),
      pause(20),
      text(`\r\ndata:${upstreamChunk({ content: " kettle" })}\r\n\r\n`),
      text(`data:${upstreamChunk({}, "stop")}\r\n\r\ndata:[DONE]\r\n\r\n`),
      END,
    ]);
    const response = await ask(STREAM);
    const body = await response.text();
    expect(body).not.toContain("\r");
    expect(body.match(/"model":"alias"/g)).toHaveLength(4);
    expect(body.endsWith("data: [DONE]\n\n")).toBe(true);
    expect(body).toContain("Blue");
  });

  test("keeps characters whole that came in halves", async () => {
    const { ask, upstream } = await aGateway();
    const frame = tokenFrame("漢字 👩‍👩‍👧 é");
    const bytes = new TextEncoder().encode(frame.kind === "text" ? frame.text : "");
    const pieces = Array.from({ length: Math.ceil(bytes.length / 7) }, (_, index) => ({
      kind: "bytes" as const,
      base64: btoa(String.fromCharCode(...bytes.subarray(index * 7, index * 7 + 7))),
    }));
    await upstream.answerWith([
      EVENT_STREAM_HEAD,
      ROLE_FRAME,
      ...pieces.flatMap((piece) => [piece, pause(1)]),
      FINISH_FRAME,
      DONE_FRAME,
      END,
    ]);
    expect(textOf(await readEvents(await ask(STREAM)))).toBe("漢字 👩‍👩‍👧 é");
  });

  test("carries an event of 1 MB", async () => {
    const { ask, upstream } = await aGateway();
    const word = "lorem ipsum ".repeat(90_000);
    await upstream.answerWith(streamedAnswer([word, "end"]));
    expect(textOf(await readEvents(await ask(STREAM)))).toBe(`${word}end`);
  });

  test("keeps the indexes of two choices apart", async () => {
    const { ask, upstream } = await aGateway();
    await upstream.answerWith([
      EVENT_STREAM_HEAD,
      chunkFrame({ index: 0, delta: { content: "Red" } }),
      chunkFrame({ index: 1, delta: { content: "Grey" } }),
      chunkFrame({ index: 0, finish_reason: "stop" }),
      chunkFrame({ index: 1, finish_reason: "length" }),
      DONE_FRAME,
      END,
    ]);
    const events = await readEvents(await ask({ body: { stream: true, n: 2 } }));
    expect(events.at(-1)).toEqual({ data: "[DONE]" });
    expect(events).toHaveLength(5);
  });
});
