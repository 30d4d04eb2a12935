import { describe, expect, test } from "vitest";
import { firstTokenWithin } from "../support/pool-builders.ts";
import { refusal, streamThatGoesOn } from "./support/answers.ts";
import type { TestGateway } from "./support/gateway.ts";
import {
  aGateway,
  becomesIdle,
  errorEvent,
  eventsOf,
  readEvents,
  textOf,
} from "./support/gateway.ts";
import { prefillingAt } from "./support/replica.ts";
import { streamedAnswer } from "./support/upstream.ts";

/** Short, so that two of them are within a guarantee. */
const STREAM = { body: { stream: true, max_completion_tokens: 5 } };
const KEEP_ALIVE = ": keep-alive\n\n";

/** Reads a stream piece by piece until its text so far is what the test waits for. */
async function readUntil(
  reader: ReadableStreamDefaultReader<Uint8Array>,
  isReached: (text: string) => boolean,
): Promise<string> {
  const utf8 = new TextDecoder();
  let text = "";
  while (!isReached(text)) {
    // oxlint-disable-next-line no-await-in-loop -- the next piece comes after this one
    const { done, value } = await reader.read();
    if (done) break;
    text += utf8.decode(value, { stream: true });
  }
  return text;
}

function readerOf({ body }: Response): ReadableStreamDefaultReader<Uint8Array> {
  if (body === null) throw new Error("A stream has a body");
  return body.getReader();
}

/** A pool with one slot, which one request holds until the gate `free` opens. */
async function aBusyGateway(ttftMs: number): Promise<{ gateway: TestGateway; running: Response }> {
  const gateway = await aGateway({
    replica: { hello: { sequencesMax: 1, queueMax: 0 } },
    tenant: { targets: firstTokenWithin(ttftMs) },
    // On a replica with one slot a request costs so much that half of it would not cover two.
    guaranteedRatios: [0.9, 0],
  });
  await gateway.upstream.answerWith(
    streamThatGoesOn(["first"], { kind: "gate", name: "free" }, ...streamedAnswer([]).slice(2)),
    streamedAnswer(["second"]),
  );
  return { gateway, running: await gateway.ask(STREAM) };
}

describe("a replica that keeps the client waiting", () => {
  test("is covered by a head and comments, and the answer follows when it comes", async () => {
    const { ask, upstream } = await aGateway();
    await upstream.answerWith([{ kind: "gate", name: "go" }, ...streamedAnswer(["late"])]);
    const response = await ask(STREAM);
    // The gate is closed: the head came without any answer.
    expect(response.status).toBe(200);
    expect(response.headers.get("server-timing")).toMatch(/^queue;dur=\d+$/);
    const reader = readerOf(response);
    const waited = await readUntil(reader, (text) => text.length >= 2 * KEEP_ALIVE.length);
    expect(waited).toBe(KEEP_ALIVE.repeat(2));
    await upstream.openGate("go");
    const rest = await readUntil(reader, () => false);
    expect(textOf(eventsOf(rest))).toBe("late");
    expect(rest.endsWith("data: [DONE]\n\n")).toBe(true);
  });

  test("and then fails ends the stream with an event, as the status is gone", async () => {
    const gateway = await aGateway();
    await gateway.upstream.answerWith([{ kind: "gate", name: "go" }, ...refusal(502, "no")]);
    const response = await gateway.ask(STREAM);
    await gateway.upstream.openGate("go");
    expect(await readEvents(response)).toEqual([errorEvent("upstream_error")]);
    await becomesIdle(gateway);
  });

  test("between two tokens is covered by comments as well", async () => {
    const { ask, upstream } = await aGateway();
    await upstream.answerWith(
      streamThatGoesOn(["a"], { kind: "gate", name: "go" }, ...streamedAnswer([]).slice(2)),
    );
    const reader = readerOf(await ask(STREAM));
    expect(await readUntil(reader, (text) => text.endsWith(KEEP_ALIVE))).toContain('"a"');
    await upstream.openGate("go");
    expect(await readUntil(reader, () => false)).toMatch(/data: \[DONE\]\n\n$/);
  });
});

describe("a request in the pool's queue", () => {
  test("is served when a slot comes free, though its head is out already", async () => {
    const { gateway, running } = await aBusyGateway(10_000);
    const waiting = await gateway.ask(STREAM);
    expect(waiting.status).toBe(200);
    expect(await gateway.poolStatus()).toMatchObject({ queued: 1 });
    await gateway.upstream.openGate("free");
    expect(textOf(await readEvents(running))).toBe("first");
    expect(textOf(await readEvents(waiting))).toBe("second");
    await becomesIdle(gateway);
  });

  test("is refused with a status while its head is held", async () => {
    const { gateway, running } = await aBusyGateway(1_000);
    const refused = await gateway.ask(STREAM);
    expect(refused.status).toBe(503);
    expect(refused.headers.get("retry-after")).toMatch(/^\d+$/);
    expect(await refused.json()).toMatchObject({
      error: { code: "server_is_overloaded", type: "service_unavailable_error" },
    });
    await gateway.upstream.openGate("free");
    await running.text();
  });

  test("is refused in the stream once its head is out", async () => {
    const { gateway, running } = await aBusyGateway(3_000);
    const refused = await gateway.ask(STREAM);
    expect(refused.status).toBe(200);
    expect(await readEvents(refused)).toMatchObject([
      { event: "error", data: { error: { code: "server_is_overloaded" } } },
    ]);
    await gateway.upstream.openGate("free");
    await running.text();
    await becomesIdle(gateway);
    expect(await gateway.upstream.requests()).toHaveLength(1);
  });

  test("for which there is no room is refused at once", async () => {
    const gateway = await aGateway({
      queueMax: 0,
      replica: { hello: { sequencesMax: 1, queueMax: 0 } },
      guaranteedRatios: [0.9, 0],
    });
    await gateway.upstream.answerWith(
      streamThatGoesOn(["first"], { kind: "gate", name: "free" }, ...streamedAnswer([]).slice(2)),
    );
    const running = await gateway.ask(STREAM);
    const refused = await gateway.ask(STREAM);
    expect(refused.status).toBe(503);
    await gateway.upstream.openGate("free");
    await running.text();
  });
});

describe("a hopeless request", () => {
  test("is refused before any replica is asked, with the wait that is predicted", async () => {
    const gateway = await aGateway({
      replica: { report: { ...prefillingAt(10), queuedUncachedTokens: 10_000 } },
      tenant: { targets: firstTokenWithin(1_800) },
    });
    const response = await gateway.ask(STREAM);
    expect(response.status).toBe(503);
    expect(await response.json()).toMatchObject({
      error: { message: expect.stringMatching(/a wait of \d+ ms is predicted$/) },
    });
    expect(await gateway.upstream.requests()).toEqual([]);
  });
});
