import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { ModelId } from "../../src/protocol/ids.ts";
import { TimelineRecorder } from "../../src/slo/timeline.ts";
import { TokenStream } from "../../src/streaming/token-stream.ts";
import { CallWatch } from "../../workers/call-watch.ts";
import { ClientStream } from "../../workers/client-stream.ts";
import { relay } from "../../workers/relay.ts";
import { FINISH_FRAME, ROLE_FRAME, tokenFrame } from "./support/answers.ts";
import { errorEvent, eventsOf, textOf } from "./support/gateway.ts";

const FIRST_TOKEN_MS = 500;
const STALL_MARK_MS = 80;
const SOON_MS = 50;
const LIMITS = { stallMs: 300, unreadMs: 900, finishGraceMs: 100 };

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

/** A relay between a replica that the test speaks for and a client that reads everything. */
function aRelay(recorded: Promise<void> = Promise.resolve()) {
  const watch = new CallWatch(Date.now() + 10_000, () =>
    client.isBlocked ? "client-gone" : "timeout",
  );
  const client: ClientStream = new ClientStream({
    headers: () => ({}),
    onClientGone: () => watch.stop("client-gone"),
  });
  watch.expectBy(Date.now() + FIRST_TOKEN_MS);
  const stream = new TokenStream({
    modelId: ModelId.parse("m"),
    choiceCount: 1,
    includeUsage: false,
  });
  const { readable, writable } = new IdentityTransformStream();
  const replica = writable.getWriter();
  const encoder = new TextEncoder();
  const say = async (step: ReturnType<typeof tokenFrame> | string): Promise<void> => {
    const text = typeof step === "string" ? step : step.kind === "text" ? step.text : "";
    await replica.write(encoder.encode(text));
  };
  // A fetch ends its body with an error when its signal fires.
  watch.signal.addEventListener("abort", () => {
    replica.abort(watch.signal.reason).catch(() => {});
  });
  const timeline = new TimelineRecorder({
    arrivedAtMs: Date.now(),
    uploadMs: 0,
    isStreamed: true,
    targets: {},
  });
  const attempt = new AbortController();
  const signal = AbortSignal.any([watch.signal, attempt.signal]);
  const onStall = vi.fn<() => void>();
  const onFirstToken = vi.fn<(atMs: number) => void>();
  const line = {
    signal,
    recorded,
    onAnswer: () => {},
    tellsTokens: false,
    prospects: async () => undefined,
    onFirstToken,
    stallMarkMs: STALL_MARK_MS,
    onStall,
  };
  const tail = relay(readable, { stream, client, watch, timeline, line }, LIMITS);
  return { client, stream, tail, say, watch, attempt, onStall, onFirstToken };
}

describe("relay()", () => {
  test("gives the client nothing before it is on disk that its request has begun", async () => {
    const disk = new AbortController();
    const recorded = new Promise<void>((resolve) => {
      disk.signal.addEventListener("abort", () => resolve());
    });
    const { client, tail, say } = aRelay(recorded);
    const sent = vi.spyOn(client, "send");
    const text = client.response.then((response) => response.text());
    await say(tokenFrame("a"));
    await vi.advanceTimersByTimeAsync(LIMITS.stallMs - 1);
    expect(sent).not.toHaveBeenCalled();
    disk.abort();
    await vi.advanceTimersByTimeAsync(0);
    expect(sent).toHaveBeenCalledTimes(1);
    await say(FINISH_FRAME);
    await vi.advanceTimersByTimeAsync(LIMITS.finishGraceMs);
    await client.end(await tail);
    expect(textOf(eventsOf(await text))).toBe("a");
  });

  test("tells of the first token once the client has it, and soon where it cannot have it yet", async () => {
    const { client, say, onFirstToken } = aRelay();
    const sent = vi.spyOn(client, "send");
    const atMs = Date.now();
    await say(tokenFrame("a"));
    await vi.advanceTimersByTimeAsync(SOON_MS - 1);
    expect(sent).toHaveBeenCalledTimes(1);
    expect(onFirstToken).not.toHaveBeenCalled();
    await vi.advanceTimersByTimeAsync(1);
    expect(onFirstToken.mock.calls).toEqual([[atMs]]);

    const other = aRelay();
    const answer = other.client.response;
    await other.say(tokenFrame("a"));
    expect(other.onFirstToken).not.toHaveBeenCalled();
    const reader = (await answer).body?.getReader();
    await reader?.read();
    await vi.advanceTimersByTimeAsync(0);
    expect(other.onFirstToken).toHaveBeenCalledTimes(1);
    await other.say(tokenFrame("b"));
    await reader?.read();
    await vi.advanceTimersByTimeAsync(SOON_MS);
    expect(other.onFirstToken).toHaveBeenCalledTimes(1);
  });

  test("ends a stream that stalls behind a token with a timeout", async () => {
    const { client, tail, say, stream } = aRelay();
    const text = client.response.then((response) => response.text());
    await say(tokenFrame("a"));
    await vi.advanceTimersByTimeAsync(LIMITS.stallMs - 1);
    await say(tokenFrame("b"));
    await vi.advanceTimersByTimeAsync(LIMITS.stallMs - 1);
    expect(stream.isOver).toBe(false);
    await vi.advanceTimersByTimeAsync(1);
    await client.end(await tail);
    const events = eventsOf(await text);
    expect(textOf(events)).toBe("ab");
    expect(events.slice(2)).toEqual([errorEvent("timeout")]);
  });

  test("tells of every pause that is too long, once and while it lasts", async () => {
    const { client, say, stream, onStall } = aRelay();
    void client.response.then((response) => response.text());
    await vi.advanceTimersByTimeAsync(STALL_MARK_MS);
    expect(onStall).not.toHaveBeenCalled();
    for (const stalls of [1, 2]) {
      // oxlint-disable-next-line no-await-in-loop -- one token after the other
      await say(tokenFrame("a"));
      // oxlint-disable-next-line no-await-in-loop -- as above
      await vi.advanceTimersByTimeAsync(STALL_MARK_MS - 1);
      expect(onStall).toHaveBeenCalledTimes(stalls - 1);
      // oxlint-disable-next-line no-await-in-loop -- as above
      await vi.advanceTimersByTimeAsync(50);
      expect(onStall).toHaveBeenCalledTimes(stalls);
    }
    expect(stream.isOver).toBe(false);
  });

  test("takes tokens that keep coming, and what follows the last text, for no stall", async () => {
    const { client, tail, say, onStall } = aRelay();
    void client.response.then((response) => response.text());
    for (let count = 0; count < 5; count++) {
      // oxlint-disable-next-line no-await-in-loop -- one token after the other
      await say(tokenFrame("a"));
      // oxlint-disable-next-line no-await-in-loop -- as above
      await vi.advanceTimersByTimeAsync(STALL_MARK_MS - 1);
    }
    await say(FINISH_FRAME);
    await vi.advanceTimersByTimeAsync(LIMITS.finishGraceMs);
    await tail;
    expect(onStall).not.toHaveBeenCalled();
  });

  test("takes no comment for a token", async () => {
    const { client, tail, say } = aRelay();
    const text = client.response.then((response) => response.text());
    await say(tokenFrame("a"));
    for (let waitedMs = 0; waitedMs < LIMITS.stallMs; waitedMs += 50) {
      // oxlint-disable-next-line no-await-in-loop -- one comment after the other
      await say(": hold\n\n").catch(() => {});
      // oxlint-disable-next-line no-await-in-loop -- as above
      await vi.advanceTimersByTimeAsync(50);
    }
    await client.end(await tail);
    expect(eventsOf(await text).at(-1)).toEqual(errorEvent("timeout"));
  });

  test("gives a replica no more time for its first token because it says something else", async () => {
    const { tail, say, stream } = aRelay();
    await say(ROLE_FRAME);
    await vi.advanceTimersByTimeAsync(FIRST_TOKEN_MS - 100);
    await say(ROLE_FRAME);
    await vi.advanceTimersByTimeAsync(100);
    expect(eventsOf(await tail)).toEqual([errorEvent("timeout")]);
    expect(stream.hasReleased).toBe(false);
  });

  test("waits only briefly for what may come behind the last text", async () => {
    const { client, tail, say } = aRelay();
    const text = client.response.then((response) => response.text());
    await say(tokenFrame("a"));
    await say(FINISH_FRAME);
    await vi.advanceTimersByTimeAsync(LIMITS.finishGraceMs);
    expect(eventsOf(await tail)).toEqual([{ data: "[DONE]" }]);
    await client.end(await tail);
    expect(textOf(eventsOf(await text))).toBe("a");
  });

  test("lets go of a replica that still talks when the stream is over", async () => {
    const { tail, say } = aRelay();
    await say("data: {\n\n");
    expect(eventsOf(await tail)).toEqual([errorEvent("upstream_error")]);
    await expect(say(tokenFrame("b"))).rejects.toThrow("cancel");
  });

  test("lets no token through that comes when the attempt is given up already", async () => {
    const { tail, say, stream, attempt } = aRelay();
    attempt.abort();
    await say(tokenFrame("a"));
    await tail;
    expect([stream.phase, stream.hasReleased]).toEqual(["broken", false]);
  });

  test("gives a replica all of its time again once a slow client has read", async () => {
    const { client, tail, say, watch, onStall } = aRelay();
    await say(tokenFrame("a"));
    const { body } = await client.response;
    await vi.advanceTimersByTimeAsync(LIMITS.unreadMs - 1);
    const text = new Response(body).text();
    await vi.advanceTimersByTimeAsync(STALL_MARK_MS - 1);
    expect([watch.reason, onStall.mock.calls.length]).toEqual([undefined, 0]);
    await vi.advanceTimersByTimeAsync(LIMITS.stallMs - STALL_MARK_MS + 1);
    expect([watch.reason, onStall.mock.calls.length]).toEqual(["timeout", 1]);
    await client.end(await tail);
    expect(eventsOf(await text).at(-1)).toEqual(errorEvent("timeout"));
  });

  test("blames a client that does not read, and not its replica", async () => {
    const { client, tail, say, watch, onStall } = aRelay();
    watch.signal.addEventListener("abort", () => void client.abort());
    await say(tokenFrame("a"));
    await client.response;
    await vi.advanceTimersByTimeAsync(LIMITS.unreadMs - 1);
    expect(watch.reason).toBeUndefined();
    await vi.advanceTimersByTimeAsync(1);
    await tail;
    expect(watch.reason).toBe("client-gone");
    expect(onStall).not.toHaveBeenCalled();
  });
});
