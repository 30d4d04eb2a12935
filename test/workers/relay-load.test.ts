import { describe, expect, test, vi } from "vitest";
import { ModelId } from "../../src/protocol/ids.ts";
import { TimelineRecorder } from "../../src/slo/timeline.ts";
import { TokenStream } from "../../src/streaming/token-stream.ts";
import { CallWatch } from "../../workers/call-watch.ts";
import { ClientStream } from "../../workers/client-stream.ts";
import { relay } from "../../workers/relay.ts";
import { FINISH_FRAME, tokenFrame } from "./support/answers.ts";
import { DONE_FRAME } from "./support/upstream.ts";

const LIMITS = { stallMs: 60_000, unreadMs: 60_000, finishGraceMs: 60_000 };
const PIECE_BYTES = 4_096;

function bytesOf(...steps: readonly ReturnType<typeof tokenFrame>[]): Uint8Array {
  const texts = steps.map((step) => (step.kind === "text" ? step.text : ""));
  return new TextEncoder().encode(texts.join(""));
}

/** A replica's body that is made only as far as somebody reads it. */
function aBody(pieces: Iterator<Uint8Array>): {
  body: ReadableStream<Uint8Array>;
  taken: () => number;
} {
  let taken = 0;
  const pull = (controller: ReadableStreamDefaultController<Uint8Array>): void => {
    const { done, value } = pieces.next();
    if (done === true) {
      controller.close();
      return;
    }
    taken += value.length;
    controller.enqueue(value);
  };
  const body = new ReadableStream<Uint8Array>({ pull }, { highWaterMark: 0 });
  return { body, taken: () => taken };
}

function relayed(body: ReadableStream<Uint8Array>) {
  const watch = new CallWatch(Date.now() + 60_000);
  const client = new ClientStream({
    headHoldMs: 60_000,
    heartbeatMs: 60_000,
    headers: () => ({}),
    onClientGone: () => watch.stop("client-gone"),
  });
  const timeline = new TimelineRecorder({
    arrivedAtMs: Date.now(),
    uploadMs: 0,
    isStreamed: true,
    targets: {},
  });
  const stream = new TokenStream({
    modelId: ModelId.parse("m"),
    choiceCount: 1,
    includeUsage: false,
  });
  const line = {
    signal: watch.signal,
    recorded: Promise.resolve(),
    onAnswer: () => {},
    onFirstToken: () => {},
    stallMarkMs: 60_000,
    onStall: () => {},
    tellsTokens: false,
    prospects: async () => undefined,
  };
  const tail = relay(body, { stream, client, watch, timeline, line }, LIMITS);
  const ended = tail.then((text) => client.end(text)).finally(() => watch.dispose());
  return { client, ended };
}

function* piecesOf(bytes: Uint8Array): Generator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += PIECE_BYTES) yield bytes.slice(at, at + PIECE_BYTES);
}

/** How long one event of so many characters takes from the replica to the client. */
async function relayingMs(characters: number): Promise<number> {
  // Quotes and brackets are what a reader of JSON stumbles over.
  const content = '"}{\\\\,'.repeat(characters / 6);
  const bytes = bytesOf(tokenFrame(content), FINISH_FRAME, DONE_FRAME);
  const beginsAtMs = performance.now();
  const { client, ended } = relayed(aBody(piecesOf(bytes)).body);
  const text = await (await client.response).text();
  await ended;
  const tookMs = performance.now() - beginsAtMs;
  expect(text.length).toBeGreaterThan(characters);
  return tookMs;
}

async function fastestMs(characters: number): Promise<number> {
  let fastest = Infinity;
  for (let round = 0; round < 5; round += 1) {
    // oxlint-disable-next-line no-await-in-loop -- they would disturb each other
    fastest = Math.min(fastest, await relayingMs(characters));
  }
  return fastest;
}

describe("a single event", () => {
  test("of eight times the size takes about eight times as long, not its square", async () => {
    const small = await fastestMs(125_000);
    const large = await fastestMs(1_000_000);
    // Linear is 8 and quadratic 64.
    expect(large / small).toBeLessThan(24);
  });
});

describe("what a replica sends in one piece", () => {
  test("is one write to the client, however many events it holds, and half of one is none", async () => {
    const events = [1, 2, 5, 40];
    const pieces = events.map((count) =>
      bytesOf(...Array.from({ length: count }, () => tokenFrame("x"))),
    );
    const [torn] = pieces.splice(1, 1);
    const halves = torn === undefined ? [] : [torn.slice(0, 20), torn.slice(20)];
    const all = [...pieces, ...halves, bytesOf(FINISH_FRAME, DONE_FRAME)];
    const { client, ended } = relayed(aBody(all.values()).body);
    const sent = vi.spyOn(client, "send");
    const text = await (await client.response).text();
    await ended;
    const writes = sent.mock.calls.map(([part]) => part.match(/data: /g)?.length);
    // The last one is the end, which waits until all is given back.
    expect(writes).toEqual([1, 5, 40, 2, 2]);
    expect(text).toBe(sent.mock.calls.map(([part]) => part).join(""));
  });
});

describe("a client that does not read", () => {
  test("holds its replica up, so that no more than a few pieces are kept for it", async () => {
    const frame = bytesOf(tokenFrame("x".repeat(65_536)));
    const total = 400;
    function* frames(): Generator<Uint8Array> {
      for (let count = 0; count < total; count += 1) yield frame;
      yield bytesOf(FINISH_FRAME, DONE_FRAME);
    }
    const { body, taken } = aBody(frames());
    const { client, ended } = relayed(body);
    const response = await client.response;
    // Time for far more than it should take: all of it takes some hundred turns.
    for (let turn = 0; turn < 2_000; turn += 1) {
      // oxlint-disable-next-line no-await-in-loop -- turns follow each other
      await scheduler.wait(turn % 100 === 0 ? 1 : 0);
    }
    expect(taken()).toBeGreaterThan(0);
    expect(taken()).toBeLessThanOrEqual(4 * frame.length);

    const text = await response.text();
    await ended;
    expect(taken()).toBeGreaterThan(total * frame.length);
    expect(text.match(/"model":"m"/g)).toHaveLength(total + 1);
    expect(client.isBlocked).toBe(false);
  });
});
