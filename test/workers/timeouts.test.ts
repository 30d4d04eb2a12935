import { describe, expect, test } from "vitest";
import type { UpstreamStep } from "../support/upstream-script.ts";
import { refusal, ROLE_FRAME, streamThatGoesOn } from "./support/answers.ts";
import { aGateway, becomesIdle, errorEvent, readEvents, textOf } from "./support/gateway.ts";
import { EVENT_STREAM_HEAD, streamedAnswer, wholeAnswer } from "./support/upstream.ts";

const STREAM = { body: { stream: true } };
const HANG = { kind: "hang" } as const;
const KEEP_ALIVE: UpstreamStep = { kind: "text", text: ": hold\n\n" };

/** Alive as far as its bytes tell, and without a token. */
const HOLDING: readonly UpstreamStep[] = [
  EVENT_STREAM_HEAD,
  ROLE_FRAME,
  ...Array.from({ length: 100 }, () => [KEEP_ALIVE, { kind: "pause" as const, ms: 50 }]).flat(),
  HANG,
];

/** Long for what a busy machine has to do within it, and over before a stream's head goes out. */
const TIMEOUT_MS = 1_500;

describe("a tenant's timeout to the first token", () => {
  const tenant = { timeouts: { firstTokenMs: TIMEOUT_MS } };

  test("ends an attempt that is alive in all but tokens, and another replica is asked", async () => {
    const gateway = await aGateway({ replicaCount: 2, tenant });
    await gateway.upstream.answerWith(HOLDING, streamedAnswer(["here", " now"]));
    const response = await gateway.ask(STREAM);
    expect(textOf(await readEvents(response))).toBe("here now");
    const requests = await gateway.upstream.requests();
    expect(requests.map(({ closedEarly }) => closedEarly)).toEqual([true, false]);
    expect(new Set(requests.map(({ address }) => address)).size).toBe(2);
    await becomesIdle(gateway);
  });

  test("ends also the attempt after which there is no other", async () => {
    const gateway = await aGateway({ tenant });
    await gateway.upstream.answerWith(HOLDING);
    const response = await gateway.ask(STREAM);
    expect(response.status).toBe(504);
    expect(await response.json()).toMatchObject({ error: { code: "timeout" } });
    await becomesIdle(gateway);
  });

  test("is none of an answer that comes whole, which has no first token to see", async () => {
    const gateway = await aGateway({ tenant });
    await gateway.upstream.answerWith([
      { kind: "pause", ms: TIMEOUT_MS + 300 },
      ...wholeAnswer("late"),
    ]);
    expect((await gateway.ask()).status).toBe(200);
  });

  test("is over with the first token, however long the second takes", async () => {
    const gateway = await aGateway({ tenant });
    const slow = streamedAnswer(["a", "b"]);
    slow.splice(3, 0, { kind: "pause", ms: TIMEOUT_MS + 300 });
    await gateway.upstream.answerWith(slow);
    expect(textOf(await readEvents(await gateway.ask(STREAM)))).toBe("ab");
  });
});

describe("a tenant's timeout of a whole call", () => {
  const tenant = { timeouts: { totalMs: TIMEOUT_MS } };

  test("ends a call that has no answer by then", async () => {
    const gateway = await aGateway({ tenant });
    await gateway.upstream.answerWith([HANG]);
    const response = await gateway.ask();
    expect(response.status).toBe(504);
    await becomesIdle(gateway);
  });

  test("ends a stream that goes on and on, with one error", async () => {
    const gateway = await aGateway({ tenant });
    const steps = Array.from({ length: 40 }, () => [
      KEEP_ALIVE,
      { kind: "pause" as const, ms: 50 },
    ]);
    await gateway.upstream.answerWith(streamThatGoesOn(["so", " far"], ...steps.flat(), HANG));
    const events = await readEvents(await gateway.ask(STREAM));
    expect(textOf(events.slice(0, -1))).toBe("so far");
    expect(events.at(-1)).toMatchObject(errorEvent("timeout"));
    await becomesIdle(gateway);
  });
});

describe("a tenant's timeout of a pause", () => {
  test("ends a stream that pauses for longer, with one error", async () => {
    const gateway = await aGateway({ tenant: { timeouts: { stallMs: 200 } } });
    await gateway.upstream.answerWith(streamThatGoesOn(["so", " far"], HANG));
    const events = await readEvents(await gateway.ask(STREAM));
    expect(events.at(-1)).toMatchObject(errorEvent("timeout"));
    await becomesIdle(gateway);
  });
});

describe("a tenant's number of attempts", () => {
  test.each([2, 4])("is what a call gets, be it %i", async (attemptsMax) => {
    const gateway = await aGateway({ replicaCount: 4, tenant: { attemptsMax } });
    await gateway.upstream.answerWith(refusal(503, "no"));
    expect((await gateway.ask()).status).toBe(503);
    const asked = (await gateway.upstream.requests()).map(({ address }) => address);
    expect(asked).toHaveLength(attemptsMax);
    expect(new Set(asked).size).toBe(attemptsMax);
  });
});
