import { describe, expect, test, vi } from "vitest";
import { firstTokenWithin } from "../support/pool-builders.ts";
import { refusal, ROLE_FRAME, streamThatGoesOn } from "./support/answers.ts";
import type { TestGateway } from "./support/gateway.ts";
import {
  aGateway,
  becomesIdle,
  EMBEDDINGS_PATH,
  readEvents,
  textOf,
  WAIT,
} from "./support/gateway.ts";
import {
  anUpstream,
  EVENT_STREAM_HEAD,
  jsonAnswer,
  streamedAnswer,
  wholeAnswer,
} from "./support/upstream.ts";

const STREAM = { body: { stream: true } };
const END = { kind: "end" } as const;
const RESET = { kind: "reset" } as const;

const aGatewayOfTwo = (): Promise<TestGateway> => aGateway({ replicaCount: 2 });

/** Which replicas were asked, in order. */
async function addressesAsked({ upstream }: TestGateway): Promise<number[]> {
  const requests = await upstream.requests();
  return requests.map(({ address }) => address);
}

async function expectAttempts(gateway: TestGateway, attempts: number): Promise<void> {
  const asked = await addressesAsked(gateway);
  expect(asked).toHaveLength(attempts);
  expect(new Set(asked).size).toBe(attempts);
}

describe("a replica that fails before the client has seen anything", () => {
  test.each([
    ["answers 503", refusal(503, { error: { message: "loading weights" } })],
    ["answers 429", refusal(429, "busy")],
    ["answers 502 in plain text", refusal(502, "up-node-17: no process")],
    ["answers 504", refusal(504, "")],
    ["resets the connection", [RESET]],
    ["ends its stream behind the role", [EVENT_STREAM_HEAD, ROLE_FRAME, END]],
    ["resets its stream behind the role", [EVENT_STREAM_HEAD, ROLE_FRAME, RESET]],
    [
      "sends an error under status 200",
      [EVENT_STREAM_HEAD, { kind: "text" as const, text: 'data: {"error":"no"}\n\n' }, END],
    ],
    ["sends a page", refusal(200, "<p>Welcome</p>", { "content-type": "text/html" })],
  ])("and %s is replaced by another replica, unseen", async (_, steps) => {
    const gateway = await aGatewayOfTwo();
    await gateway.upstream.answerWith(steps, streamedAnswer(["second", " try"]));
    const response = await gateway.ask(STREAM);
    expect(response.status).toBe(200);
    const events = await readEvents(response);
    expect(textOf(events)).toBe("second try");
    expect(events.at(-1)).toEqual({ data: "[DONE]" });
    await expectAttempts(gateway, 2);
    await becomesIdle(gateway);
  });

  test.each([
    ["answers 503", refusal(503, "loading")],
    [
      "breaks off",
      [...wholeAnswer("a").slice(0, 1), { kind: "text" as const, text: '{"cho' }, RESET],
    ],
  ])("and %s is replaced for a whole answer as well", async (_, steps) => {
    const gateway = await aGatewayOfTwo();
    await gateway.upstream.answerWith(steps, wholeAnswer("second try"));
    const response = await gateway.ask();
    expect(await response.json()).toMatchObject({
      choices: [{ message: { content: "second try" } }],
    });
    await expectAttempts(gateway, 2);
  });

  test("is told of less time left at the second attempt", async () => {
    const gateway = await aGatewayOfTwo();
    await gateway.upstream.answerWith(
      [{ kind: "pause", ms: 300 }, ...refusal(503, "no")],
      streamedAnswer(["a"]),
    );
    await gateway.ask(STREAM);
    const requests = await gateway.upstream.requests();
    const [first, second] = requests.map(({ headers }) => Number(headers["x-gw-deadline-ms"]));
    expect((first ?? 0) - (second ?? 0)).toBeGreaterThanOrEqual(250);
  });

  test("is followed by two more attempts and no fourth", async () => {
    const gateway = await aGateway({ replicaCount: 4 });
    await gateway.upstream.answerWith(refusal(503, "no"));
    const response = await gateway.ask(STREAM);
    expect(response.status).toBe(503);
    await expectAttempts(gateway, 3);
    await becomesIdle(gateway);
  });

  test.each([
    [
      "503 with a delay",
      refusal(503, "busy", { "retry-after": "7" }),
      503,
      "server_is_overloaded",
      "7",
    ],
    ["503 in plain text", refusal(503, "up-node-17: gone"), 503, "server_is_overloaded", "1"],
    ["502", refusal(502, "no"), 502, "upstream_error", "1"],
    ["504", refusal(504, "no"), 504, "timeout", "1"],
  ])(
    "alone in its pool, with %s, gives the client its reason",
    async (_, steps, status, code, retryAfter) => {
      const gateway = await aGateway();
      await gateway.upstream.answerWith(steps);
      for (const response of [await gateway.ask(), await gateway.ask(STREAM)]) {
        expect(response.status).toBe(status);
        expect(response.headers.get("content-type")).toBe("application/json");
        expect(response.headers.get("retry-after")).toBe(retryAfter);
        const body = await response.text();
        expect(JSON.parse(body)).toMatchObject({ error: { code } });
        expect(body).not.toContain("up-node-17");
      }
      expect(await addressesAsked(gateway)).toEqual([0, 0]);
    },
  );
});

/** What is left of it when an attempt has been given up is long for a busy machine, too. */
const TARGET_MS = 6_000;
/** By then an attempt has been given up, if another one can be made. */
const LATE_MS = 3_600;
const SOON = {
  targets: { ...firstTokenWithin(TARGET_MS), tpot: { percentileRatio: 0.99, limitMs: 50 } },
};
const HANG = { kind: "hang" } as const;
const comment = { kind: "text", text: ": still here\n\n" } as const;
const wait = (ms: number) => ({ kind: "pause", ms }) as const;

/** How each attempt was settled with the pool. */
async function outcomesOf(gateway: TestGateway) {
  await becomesIdle(gateway);
  const records = await gateway.decisions();
  const calls = records.flatMap((record) => record.calls.map(({ call }) => call));
  return calls.flatMap((call) => (call.kind === "settle" ? [call.outcome] : []));
}

describe("a replica that does not begin to answer in time", () => {
  test.each([
    ["says nothing at all", [HANG]],
    ["sends a head and then nothing", [EVENT_STREAM_HEAD, HANG]],
    ["sends the role and then nothing", [EVENT_STREAM_HEAD, ROLE_FRAME, HANG]],
    [
      "sends nothing but comments",
      [EVENT_STREAM_HEAD, ...Array.from({ length: 40 }, () => [wait(100), comment]).flat()],
    ],
  ])("and %s is replaced within the target of the first token", async (_, steps) => {
    const gateway = await aGateway({ replicaCount: 2, tenant: SOON });
    await gateway.upstream.answerWith(steps, streamedAnswer(["second", " try"]));
    const askedAtMs = Date.now();
    const response = await gateway.ask(STREAM);
    expect(response.status).toBe(200);
    expect(Date.now() - askedAtMs).toBeLessThan(TARGET_MS);
    const events = await readEvents(response);
    expect(textOf(events)).toBe("second try");
    expect(events.at(-1)).toEqual({ data: "[DONE]" });
    await expectAttempts(gateway, 2);
    expect(await gateway.upstream.requests()).toMatchObject([
      { closedEarly: true },
      { closedEarly: false },
    ]);
    const [first, second] = await outcomesOf(gateway);
    expect(first).toEqual({ kind: "upstream-failed" });
    expect(second).toMatchObject({ kind: "completed", attainment: { kind: "good" } });
    const { tenants } = await gateway.poolStatus();
    expect(tenants).toMatchObject([{ counts: { offered: 1, admitted: 1, good: 1, missed: 0 } }]);
  });

  test.each([
    ["embeddings", { path: EMBEDDINGS_PATH, body: { input: "a" } }, { data: [{}] }],
    [
      "a whole answer of few tokens",
      { body: { max_tokens: 3 } },
      { choices: [{ finish_reason: "stop" }] },
    ],
  ])("is replaced for %s as well", async (_, wish, answer) => {
    const gateway = await aGateway({ replicaCount: 2, tenant: SOON });
    await gateway.upstream.answerWith([HANG], jsonAnswer(answer));
    const askedAtMs = Date.now();
    expect((await gateway.ask(wish)).status).toBe(200);
    expect(Date.now() - askedAtMs).toBeLessThan(TARGET_MS);
    await expectAttempts(gateway, 2);
    expect(await outcomesOf(gateway)).toMatchObject([
      { kind: "upstream-failed" },
      { kind: "completed" },
    ]);
  });

  test("and of which nothing is heard any more is replaced, however long the answer may be", async () => {
    const gateway = await aGateway({ replicaCount: 2, tenant: SOON });
    await gateway.upstream.answerWith([HANG], wholeAnswer("second try"));
    const response = gateway.ask();
    await vi.waitFor(async () => expect(await addressesAsked(gateway)).toHaveLength(1), WAIT);
    const [asked = 0] = await addressesAsked(gateway);
    gateway.replicas[asked]?.close();
    expect(await (await response).json()).toMatchObject({
      choices: [{ message: { content: "second try" } }],
    });
    await expectAttempts(gateway, 2);
  });

  test("is waited for where there is no other", async () => {
    const gateway = await aGateway({ tenant: SOON });
    await gateway.upstream.answerWith([wait(LATE_MS), ...streamedAnswer(["late"])]);
    expect(textOf(await readEvents(await gateway.ask(STREAM)))).toBe("late");
    await expectAttempts(gateway, 1);
  });

  test("is waited for when all others have failed the request before", async () => {
    const gateway = await aGateway({ replicaCount: 2, tenant: SOON });
    await gateway.upstream.answerWith(refusal(503, "loading"), [
      wait(LATE_MS),
      ...streamedAnswer(["late"]),
    ]);
    expect(textOf(await readEvents(await gateway.ask(STREAM)))).toBe("late");
    await expectAttempts(gateway, 2);
  });

  test("is waited for when it is the last that may be asked", async () => {
    const gateway = await aGateway({ replicaCount: 4, tenant: SOON });
    const broken = refusal(502, "no");
    await gateway.upstream.answerWith(broken, broken, [wait(LATE_MS), ...streamedAnswer(["late"])]);
    expect(textOf(await readEvents(await gateway.ask(STREAM)))).toBe("late");
    await expectAttempts(gateway, 3);
  });

  test("is not given up behind its first token, however long the second takes", async () => {
    const gateway = await aGateway({ replicaCount: 2, tenant: SOON });
    await gateway.upstream.answerWith(
      streamThatGoesOn(["One"], wait(LATE_MS), ...streamedAnswer([" two"]).slice(2)),
    );
    expect(textOf(await readEvents(await gateway.ask(STREAM)))).toBe("One two");
    await expectAttempts(gateway, 1);
  });
});

describe("an answer that is final", () => {
  test("after the first token no other replica is asked", async () => {
    const gateway = await aGatewayOfTwo();
    await gateway.upstream.answerWith(streamThatGoesOn(["One"], { kind: "pause", ms: 50 }, RESET));
    const events = await readEvents(await gateway.ask(STREAM));
    expect(textOf(events)).toBe("One");
    expect(events.at(-1)).toMatchObject({ event: "error" });
    await expectAttempts(gateway, 1);
  });

  test("our engine's refusal of a request keeps its code, parameter and message", async () => {
    const gateway = await aGatewayOfTwo();
    const error = {
      message: "This model's maximum context length is 2048 tokens, the prompt has 9000",
      type: "invalid_request_error",
      param: "messages",
      code: "context_length_exceeded",
    };
    await gateway.upstream.answerWith(refusal(400, { error }));
    const response = await gateway.ask(STREAM);
    expect(response.status).toBe(400);
    expect(await response.json()).toEqual({ error });
    await expectAttempts(gateway, 1);
  });

  test("a foreign refusal of a request is put in our envelope", async () => {
    const gateway = await aGatewayOfTwo();
    await gateway.upstream.answerWith(
      refusal(400, { error: { message: "temperature may be at most 2", code: 400 } }),
    );
    const response = await gateway.ask();
    expect(response.status).toBe(400);
    expect(await response.json()).toEqual({
      error: {
        message: "temperature may be at most 2",
        type: "invalid_request_error",
        param: null,
        code: "invalid_value",
      },
    });
    await expectAttempts(gateway, 1);
  });

  test.each([401, 403, 404, 418, 500])("status %i is the gateway's own trouble", async (status) => {
    const gateway = await aGatewayOfTwo();
    await gateway.upstream.answerWith(refusal(status, "Bearer xyz is wrong"));
    const response = await gateway.ask();
    expect(response.status).toBe(502);
    const body = await response.text();
    expect(JSON.parse(body)).toMatchObject({ error: { code: "upstream_error" } });
    expect(body).not.toContain("xyz");
    await expectAttempts(gateway, 1);
  });

  test("a redirect is not followed, as the secret would go along", async () => {
    const gateway = await aGateway();
    const elsewhere = anUpstream();
    await elsewhere.answerWith(wholeAnswer("a"));
    const location = `${elsewhere.endpointUrl}/v1/chat/completions`;
    await gateway.upstream.answerWith(refusal(307, "", { location }));
    expect((await gateway.ask()).status).toBe(502);
    expect(await elsewhere.requests()).toEqual([]);
  });
});
