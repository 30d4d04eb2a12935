import { describe, expect, test } from "vitest";
import type { UpstreamStep } from "../support/upstream-script.ts";
import { streamThatGoesOn } from "./support/answers.ts";
import type { TestGateway } from "./support/gateway.ts";
import { aGateway, becomesIdle, COMPLETION_PATH, readEvents, textOf } from "./support/gateway.ts";
import {
  chunkFrame,
  completionFrame,
  DONE_FRAME,
  jsonAnswer,
  streamedAnswer,
  streamedCompletion,
} from "./support/upstream.ts";

const END: UpstreamStep = { kind: "end" };
const HANG: UpstreamStep = { kind: "hang" };
const RESET: UpstreamStep = { kind: "reset" };
const text = (content: string): UpstreamStep => ({ kind: "text", text: content });
const data = (content: string): UpstreamStep => text(`data: ${content}\n\n`);
/** Else a reset would take along what was written just before it. */
const PAUSE: UpstreamStep = { kind: "pause", ms: 5 };

const WORDS = ["One", " two", " three"];

const FORMS = [
  {
    form: "a chat",
    // Short, so that the tenant's guarantee is not spent on the way.
    wish: { body: { stream: true, max_tokens: 4 } },
    answer: streamThatGoesOn(WORDS, ...streamedAnswer([]).slice(2)),
    finish: (reason: string) => chunkFrame({ finish_reason: reason }),
    whole: {
      wish: { body: { max_tokens: 4 } },
      answer: { choices: [{ message: {}, finish_reason: "stop" }] },
    },
  },
  {
    form: "a completion",
    wish: { path: COMPLETION_PATH, body: { prompt: "Count", stream: true } },
    answer: streamedCompletion(WORDS),
    finish: (reason: string) => completionFrame({ finish_reason: reason }),
    whole: {
      wish: { path: COMPLETION_PATH, body: { prompt: "Count" } },
      answer: { choices: [{ text: "One", finish_reason: "stop" }] },
    },
  },
];

/** What a replica does in the middle of a stream; at its right place a `[DONE]` is none. */
const FAULTS = (finish: (reason: string) => UpstreamStep): [string, UpstreamStep[]][] => [
  ["ends", [END]],
  ["resets", [PAUSE, RESET]],
  ["ends in the middle of an event", [text('data: {"choices":[{"ind'), END]],
  ["resets in the middle of an event", [text('data: {"choices"'), PAUSE, RESET]],
  ["ends in the middle of a character", [{ kind: "bytes", base64: btoa("data: \u00e6") }, END]],
  ["says that all is done", [DONE_FRAME, END]],
  ["says garbage", [data("<html>"), END]],
  ["says null", [data("null"), END]],
  ["says a list", [data("[]"), END]],
  ["says choices that are none", [data('{"choices":"many"}'), END]],
  ["says a choice that cannot be", [data('{"choices":[{"index":4096}]}'), END]],
  ["says an error object", [data('{"error":{"message":"no","code":"oom"}}'), END]],
  ["says an error text", [data('{"error":"no"}'), END]],
  ["sends an event named error", [text("event: error\ndata: {}\n\n"), END]],
  ["finishes by an error", [finish("error"), DONE_FRAME, END]],
  ["finishes by an abort", [finish("abort"), END]],
];

/** What a replica does in the middle of an answer that should come whole. */
const WHOLE_FAULTS: [string, UpstreamStep[]][] = [
  ["ends", [END]],
  ["resets", [RESET]],
  ["ends in the middle of a character", [{ kind: "bytes", base64: btoa("\u00e6") }, END]],
  [
    "resets in the middle of a character",
    [{ kind: "bytes", base64: btoa("\u00e6") }, PAUSE, RESET],
  ],
  ["says nothing in bytes", [{ kind: "bytes", base64: btoa("\u0000\u0000") }, END]],
  ["says garbage", [text("<html>"), END]],
  ["says garbage and resets", [text("<html>"), PAUSE, RESET]],
  ["says null", [text("null"), END]],
  ["says a list", [text("[]"), END]],
  ["says an error object", [text('{"error":{"message":"no","code":"oom"}}'), END]],
  ["says an error text", [text('{"error":"no"}'), END]],
  ["goes on as a stream", [data('{"choices":[{"index":0}]}'), DONE_FRAME, END]],
  ["closes what it has not opened", [text("]}"), END]],
];

/** A gateway whose replica is never ejected: it is the only one. */
async function ask(gateway: TestGateway, wish: object, steps: readonly UpstreamStep[]) {
  await gateway.upstream.answerWith(steps);
  return gateway.ask(wish);
}

/** What a client has got by the end of its answer, and in how many ways that ended. */
async function endingOf(response: Response) {
  if (response.headers.get("content-type") === "application/json") {
    const body = await response.json();
    return { status: response.status, terminals: [Object(body).error.code], words: "" };
  }
  const events = await readEvents(response);
  const last = events.at(-1);
  const terminals = events.filter((event) => event.event === "error" || event.data === "[DONE]");
  return {
    status: response.status,
    terminals: terminals.map((event) => (event === last ? (event.event ?? "done") : "too early")),
    words: textOf(events),
  };
}

describe.each(FORMS)("a replica that answers $form", ({ wish, answer, finish, whole }) => {
  const firstTokenAt = answer.length - streamedCompletion(WORDS).length + 1;
  const finishAt = firstTokenAt + WORDS.length;

  test.each(FAULTS(finish))("and %s, at whatever chunk, ends in one way", async (_, fault) => {
    const gateway = await aGateway();
    for (let at = 1; at < answer.length; at++) {
      // oxlint-disable-next-line no-await-in-loop -- one script after the other
      const response = await ask(gateway, wish, [...answer.slice(0, at), ...fault]);
      // oxlint-disable-next-line no-await-in-loop -- as above
      const { status, terminals, words } = await endingOf(response);
      const hasBegun = at > firstTokenAt;
      const failed = hasBegun ? "error" : "upstream_error";
      // Behind the last text an answer is whole, unless the replica itself says that it failed.
      const allowed = at > finishAt ? [failed, "done"] : [failed];
      expect([at, status, terminals.length]).toEqual([at, hasBegun ? 200 : 502, 1]);
      expect(allowed).toContain(terminals[0]);
      expect(WORDS.join("").startsWith(words)).toBe(true);
      expect(words === WORDS.join("") || terminals[0] !== "done").toBe(true);
    }
    await becomesIdle(gateway);
  });

  test("and falls silent before its first token, at whatever chunk, is a timeout", async () => {
    const gateway = await aGateway({ tenant: { timeouts: { firstTokenMs: 100 } } });
    for (let at = 0; at <= firstTokenAt; at++) {
      // oxlint-disable-next-line no-await-in-loop -- one script after the other
      const response = await ask(gateway, wish, [...answer.slice(0, at), HANG]);
      // oxlint-disable-next-line no-await-in-loop -- as above
      expect([at, await endingOf(response)]).toEqual([
        at,
        { status: 504, terminals: ["timeout"], words: "" },
      ]);
    }
    await becomesIdle(gateway);
  });

  test("and falls silent behind its first token, at whatever chunk, ends in one error", async () => {
    const gateway = await aGateway({ tenant: { timeouts: { stallMs: 100 } } });
    for (let at = firstTokenAt + 1; at <= finishAt; at++) {
      // oxlint-disable-next-line no-await-in-loop -- one script after the other
      const response = await ask(gateway, wish, [...answer.slice(0, at), HANG]);
      // oxlint-disable-next-line no-await-in-loop -- as above
      const { status, terminals, words } = await endingOf(response);
      expect([at, status, ...terminals]).toEqual([at, 200, "error"]);
      // A busy machine may take a pause between two chunks for that already.
      expect(WORDS.join("").startsWith(words)).toBe(true);
      expect(words).not.toBe("");
    }
    await becomesIdle(gateway);
  });

  test("and falls silent behind its last text, at whatever chunk, is whole", async () => {
    const gateway = await aGateway();
    for (let at = finishAt + 1; at < answer.length; at++) {
      // oxlint-disable-next-line no-await-in-loop -- one script after the other
      const response = await ask(gateway, wish, [...answer.slice(0, at), HANG]);
      // oxlint-disable-next-line no-await-in-loop -- as above
      expect([at, await endingOf(response)]).toEqual([
        at,
        { status: 200, terminals: ["done"], words: WORDS.join("") },
      ]);
    }
    await becomesIdle(gateway);
  });

  test("that comes whole and falls silent anywhere gives no half of it", async () => {
    const gateway = await aGateway({ tenant: { timeouts: { totalMs: 100 } } });
    const [head, body] = jsonAnswer(whole.answer);
    if (head === undefined || body?.kind !== "text") throw new Error("An answer has a body");
    const pieces = body.text.match(/.{1,10}/g) ?? [];
    for (let at = 0; at <= pieces.length; at++) {
      const sent = pieces.slice(0, at).map((piece) => text(piece));
      // oxlint-disable-next-line no-await-in-loop -- one script after the other
      const response = await ask(gateway, whole.wish, [head, ...sent, HANG]);
      // oxlint-disable-next-line no-await-in-loop -- as above
      expect([at, response.status, await response.json()]).toMatchObject([
        at,
        504,
        { error: { code: "timeout" } },
      ]);
    }
    await becomesIdle(gateway);
  });

  test("that comes whole and breaks off anywhere gives no half of it", async () => {
    const gateway = await aGateway();
    const [head, body] = jsonAnswer(whole.answer);
    if (head === undefined || body?.kind !== "text") throw new Error("An answer has a body");
    const json = body.text;
    for (let length = 0; length < json.length; length += 5) {
      const part = text(json.slice(0, length));
      // oxlint-disable-next-line no-await-in-loop -- one script after the other
      const response = await ask(gateway, whole.wish, [
        head,
        part,
        ...(length % 2 === 0 ? [END] : [PAUSE, RESET]),
      ]);
      // oxlint-disable-next-line no-await-in-loop -- as above
      expect([length, response.status, await response.json()]).toMatchObject([
        length,
        502,
        { error: { code: "upstream_error" } },
      ]);
    }
    await becomesIdle(gateway);
  });

  test.each(WHOLE_FAULTS)(
    "that comes whole and %s, at whatever piece, gives none of it",
    async (_, fault) => {
      const gateway = await aGateway();
      const [head, body] = jsonAnswer(whole.answer);
      if (head === undefined || body?.kind !== "text") throw new Error("An answer has a body");
      const pieces = body.text.match(/.{1,10}/g) ?? [];
      // Behind the last piece an end is none too early.
      const lastAt = fault.at(0) === END ? pieces.length - 1 : pieces.length;
      for (let at = 0; at <= lastAt; at++) {
        const sent = pieces.slice(0, at).map((piece) => text(piece));
        // oxlint-disable-next-line no-await-in-loop -- one script after the other
        const response = await ask(gateway, whole.wish, [head, ...sent, PAUSE, ...fault]);
        // oxlint-disable-next-line no-await-in-loop -- as above
        expect([at, response.status, await response.json()]).toMatchObject([
          at,
          502,
          { error: { code: "upstream_error" } },
        ]);
      }
      await becomesIdle(gateway);
    },
  );
});
