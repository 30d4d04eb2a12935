import { describe, expect, test } from "vitest";
import { refusal, ROLE_FRAME, streamThatGoesOn } from "./support/answers.ts";
import type { TestGateway } from "./support/gateway.ts";
import { aGateway, becomesIdle, readEvents, textOf } from "./support/gateway.ts";
import { anUpstream, EVENT_STREAM_HEAD, streamedAnswer, wholeAnswer } from "./support/upstream.ts";

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

  test("is followed by one more attempt and no third", async () => {
    const gateway = await aGateway({ replicaCount: 3 });
    await gateway.upstream.answerWith(refusal(503, "no"));
    const response = await gateway.ask(STREAM);
    expect(response.status).toBe(503);
    await expectAttempts(gateway, 2);
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
