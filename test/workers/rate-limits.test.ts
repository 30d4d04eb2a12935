import { env } from "cloudflare:workers";
import { describe, expect, test, vi } from "vitest";
import { refusal, streamThatGoesOn, tokenFrame } from "./support/answers.ts";
import type { GatewayWish, TestGateway } from "./support/gateway.ts";
import {
  aGateway,
  becomesIdle,
  COMPLETION_PATH,
  EMBEDDINGS_PATH,
  readEvents,
  WAIT,
} from "./support/gateway.ts";
import { aRow, settlesAt, skipTime, usedOf } from "./support/limits.ts";
import { prefillingAt } from "./support/replica.ts";
import {
  EVENT_STREAM_HEAD,
  jsonAnswer,
  streamedAnswer,
  streamedCompletion,
  wholeAnswer,
} from "./support/upstream.ts";

const LIMITS = { requestsPerMinuteMax: 100, tokensPerMinuteMax: 1000 };
const HANG = { kind: "hang" } as const;

/** What the gateway takes the prompt of `ask` for; its replicas count 12. */
const PROMPT_TOKENS = 21;
const OUTPUT_MAX = 50;
const BOUND = PROMPT_TOKENS + OUTPUT_MAX;

const WHOLE = { body: { max_tokens: OUTPUT_MAX } };
const STREAM = { body: { max_tokens: OUTPUT_MAX, stream: true } };

const limited = (limits: object = LIMITS, wish: GatewayWish = {}) =>
  aGateway({ ...wish, tenant: { ...limits, ...wish.tenant } });

const used = ({ tenantId }: TestGateway) => usedOf(tenantId, LIMITS);

const vectors = jsonAnswer({
  object: "list",
  model: "up",
  data: [{ object: "embedding", index: 0, embedding: [0.6, 0.8] }],
  usage: { prompt_tokens: 5, total_tokens: 5 },
});

/** Takes all places that a tenant has left of so many, counts them and gives them back. */
async function placesOf({ tenantId }: TestGateway, concurrencyMax: number): Promise<number> {
  const asked = Array.from({ length: 2 * concurrencyMax }, () => {
    const limitsMax = { concurrencyMax };
    return env.TENANTS.getByName(tenantId).acquire({ row: aRow({ tokensMax: 1 }), limitsMax });
  });
  const permits = (await Promise.all(asked)).flatMap((answer) =>
    answer.kind === "granted" ? [answer.permit] : [],
  );
  await Promise.all(permits.map((permit) => permit.release({ kind: "refunded" })));
  return permits.length;
}

/** The headers of an answer that speak of limits. */
function limitHeaders({ headers }: Response): Record<string, string> {
  return Object.fromEntries([...headers].filter(([name]) => /ratelimit|retry/.test(name)));
}

async function receives(gateway: TestGateway, count: number): Promise<void> {
  await vi.waitFor(async () => {
    expect(await gateway.upstream.requests()).toHaveLength(count);
  }, WAIT);
}

describe("an answer of a tenant with limits", () => {
  test.each([
    ["that comes whole", wholeAnswer("a"), WHOLE, BOUND, 15],
    ["that is streamed", streamedAnswer(["a", "b"]), STREAM, BOUND, 14],
    [
      "that is a streamed completion of tokens, counted exactly",
      streamedCompletion(["a", "b"]),
      { path: COMPLETION_PATH, body: { prompt: [1, 2, 3, 4, 5], max_tokens: 2, stream: true } },
      7,
      7,
    ],
    [
      "that has several choices of several prompts",
      streamedCompletion(["a", "b"]),
      {
        path: COMPLETION_PATH,
        body: {
          prompt: [
            [1, 2],
            [3, 4],
          ],
          n: 3,
          max_tokens: 7,
        },
      },
      4 + 2 * 3 * 7,
      9,
    ],
    [
      "that is vectors, whose one step is no output",
      vectors,
      { path: EMBEDDINGS_PATH, body: { input: [1, 2, 3, 4, 5] } },
      6,
      5,
    ],
  ])(
    "%s reserves its bound and keeps what its replica counted",
    async (_, script, ask, bound, kept) => {
      const gateway = await limited();
      // A whole completion is told by the same counts as a streamed one.
      const isWhole = script[0] === EVENT_STREAM_HEAD && !("stream" in ask.body);
      await gateway.upstream.answerWith(isWhole ? COMPLETION_OF_9 : script);
      const response = await gateway.ask(ask);
      expect(response.status).toBe(200);
      expect(response.headers.get("x-ratelimit-remaining-tokens")).toBe(String(1000 - bound));
      await response.text();
      expect(await used(gateway)).toEqual([1, kept]);
    },
  );

  test("says in its headers how the limits stand", async () => {
    const gateway = await limited();
    await gateway.upstream.answerWith(wholeAnswer("a"));
    const [first, second] = [await gateway.ask(WHOLE), await gateway.ask(STREAM)];
    expect(limitHeaders(first)).toEqual({
      "x-ratelimit-limit-requests": "100",
      "x-ratelimit-remaining-requests": "99",
      "x-ratelimit-reset-requests": expect.stringMatching(/^1m0(\.\d+)?s$/),
      "x-ratelimit-limit-tokens": "1000",
      "x-ratelimit-remaining-tokens": String(1000 - BOUND),
      "x-ratelimit-reset-tokens": expect.stringMatching(/^1m0(\.\d+)?s$/),
      "ratelimit-policy": '"requests";q=100;w=60',
      ratelimit: expect.stringMatching(/^"requests";r=99;t=6[01]$/),
    });
    expect(limitHeaders(second)).toMatchObject({
      "x-ratelimit-remaining-requests": "98",
      "x-ratelimit-remaining-tokens": String(1000 - BOUND - 15),
    });
  });

  test("without a maximum reserves all that the context leaves", async () => {
    const gateway = await limited({ tokensPerMinuteMax: 3000 });
    await gateway.upstream.answerWith(wholeAnswer("a"));
    const { headers } = await gateway.ask();
    expect(headers.get("x-ratelimit-remaining-tokens")).toBe(String(3000 - 2048));
  });

  test("of a tenant without limits says nothing of any", async () => {
    const gateway = await aGateway();
    await gateway.upstream.answerWith(wholeAnswer("a"));
    expect(limitHeaders(await gateway.ask())).toEqual({});
  });
});

const COMPLETION_OF_9 = jsonAnswer({
  object: "text_completion",
  model: "up",
  choices: [{ index: 0, text: "a", logprobs: null, finish_reason: "length" }],
  usage: { prompt_tokens: 5, completion_tokens: 4, total_tokens: 9 },
});

describe("a tenant at its limit", () => {
  test("of requests is told which it is and when to come back, and its pool hears nothing", async () => {
    const gateway = await limited({ requestsPerMinuteMax: 2 });
    await gateway.upstream.answerWith(wholeAnswer("a"));
    for (const _ of [1, 2]) {
      // oxlint-disable-next-line no-await-in-loop -- one after the other is the point
      expect((await gateway.ask(WHOLE)).status).toBe(200);
    }
    const response = await gateway.ask(WHOLE);
    expect(response.status).toBe(429);
    const seconds = response.headers.get("retry-after");
    expect(seconds).toMatch(/^(59|60)$/);
    expect(limitHeaders(response)).toMatchObject({
      "x-ratelimit-limit-requests": "2",
      "x-ratelimit-remaining-requests": "0",
      "ratelimit-policy": '"requests";q=2;w=60',
    });
    expect(await response.json()).toEqual({
      error: {
        message: `The tenant's limit of 2 requests per minute is reached. Please try again in ${seconds}s.`,
        type: "rate_limit_error",
        param: null,
        code: "rate_limit_exceeded",
      },
    });
    expect(await gateway.poolStatus()).toMatchObject({ offered: 2 });
  });

  test("of tokens is refused, also with a stream, and served again when its minute is over", async () => {
    const gateway = await limited({ tokensPerMinuteMax: BOUND + 14 });
    await gateway.upstream.answerWith(wholeAnswer("a"));
    await gateway.ask(WHOLE);
    const response = await gateway.ask(STREAM);
    expect(response.status).toBe(429);
    expect(await response.json()).toMatchObject({
      error: {
        code: "rate_limit_exceeded",
        message: expect.stringMatching(
          /^The tenant's limit of 85 tokens per minute is reached: the request may take 71, and 70 are left\. Please try again in (59|60)s\.$/,
        ),
      },
    });
    skipTime(61_000);
    await vi.waitFor(async () => expect((await gateway.ask(WHOLE)).status).toBe(200), WAIT);
  });

  test("by one request that is larger than all of it is told so, and not to try again", async () => {
    const gateway = await limited({ tokensPerMinuteMax: BOUND - 1 });
    const response = await gateway.ask(WHOLE);
    expect(response.status).toBe(429);
    expect(limitHeaders(response)).toMatchObject({ "x-should-retry": "false" });
    expect(response.headers.get("retry-after")).toBeNull();
    expect(await response.json()).toMatchObject({
      error: {
        code: "rate_limit_exceeded",
        message: expect.stringMatching(
          /^The request may take 71 tokens, and the tenant's limit is 70 tokens per minute: /,
        ),
      },
    });
    expect(await gateway.poolStatus()).toMatchObject({ offered: 0 });
  });

  test("is told in the log by which limit", async () => {
    const lines = vi.spyOn(console, "log").mockImplementation(() => {});
    const gateway = await limited({ tokensPerMinuteMax: BOUND - 1 });
    await gateway.ask(WHOLE);
    await vi.waitFor(() => expect(lines).toHaveBeenCalledTimes(1), WAIT);
    expect(JSON.parse(String(lines.mock.calls[0]?.[0]))).toMatchObject({
      outcome: "rate_limit_exceeded",
      limitedBy: "tokens",
    });
  });

  test("does not limit another tenant", async () => {
    const gateway = await limited({ requestsPerMinuteMax: 1 });
    await gateway.upstream.answerWith(wholeAnswer("a"));
    expect((await gateway.ask(WHOLE)).status).toBe(200);
    expect((await gateway.ask(WHOLE)).status).toBe(429);
    expect((await gateway.ask({ ...WHOLE, key: gateway.otherKey })).status).toBe(200);
  });
});

describe("a request that does not come to its end", () => {
  test("because its pool refuses it counts neither as a request nor by its tokens", async () => {
    const gateway = await limited(LIMITS, { replica: { report: prefillingAt(1000) } });
    const response = await gateway.ask(STREAM);
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({ error: { code: "slo_unattainable" } });
    expect(await used(gateway)).toEqual([0, 0]);
  });

  test.each([
    ["because its replica fails", [{ kind: "reset" } as const], 502],
    ["because its replica finds it wrong", refusal(400, { error: { message: "no" } }), 400],
  ])("%s counts as a request and costs no tokens", async (_, script, status) => {
    const gateway = await limited();
    await gateway.upstream.answerWith(script);
    expect((await gateway.ask(WHOLE)).status).toBe(status);
    expect(await used(gateway)).toEqual([1, 0]);
  });

  test("because its replica breaks off in mid-stream costs its prompt and what the client got", async () => {
    const gateway = await limited();
    await gateway.upstream.answerWith(streamThatGoesOn(["a", "b", "c"], { kind: "end" }));
    const events = await readEvents(await gateway.ask(STREAM));
    expect(events.at(-1)?.event).toBe("error");
    expect(await used(gateway)).toEqual([1, PROMPT_TOKENS + 3]);
  });

  test("because its client leaves in mid-stream costs its prompt and what was made", async () => {
    const gateway = await limited();
    await gateway.upstream.answerWith(streamThatGoesOn(["a"], HANG));
    const left = new AbortController();
    const response = await gateway.ask({ ...STREAM, signal: left.signal });
    await response.body?.getReader().read();
    expect(await used(gateway)).toEqual([1, BOUND]);
    left.abort();
    await settlesAt([1, PROMPT_TOKENS + 1], gateway.tenantId, LIMITS);
  });

  test("because its client leaves before a whole answer costs its bound, for its minute", async () => {
    const gateway = await limited();
    await gateway.upstream.answerWith([HANG]);
    const left = new AbortController();
    const response = gateway.ask({ ...WHOLE, signal: left.signal });
    await receives(gateway, 1);
    left.abort();
    await expect(response).rejects.toThrow(/abort/);
    await becomesIdle(gateway);
    expect(await used(gateway)).toEqual([1, BOUND]);
    skipTime(61_000);
    expect(await used(gateway)).toEqual([0, 0]);
  });
});

describe("limits under load", () => {
  // With 200 at once a busy machine would keep the replica's reports waiting; the object's own test has them.
  test("of many requests at once exactly as many are in flight as may run", async () => {
    const gateway = await limited({ ...LIMITS, concurrencyMax: 10 });
    await gateway.upstream.answerWith(
      streamThatGoesOn(["a"], { kind: "gate", name: "end" }, ...streamedAnswer([]).slice(2)),
    );
    const body = { max_tokens: 1, stream: true };
    const answers = await Promise.all(Array.from({ length: 40 }, () => gateway.ask({ body })));
    const running = answers.filter(({ status }) => status === 200);
    expect(running).toHaveLength(10);
    expect(answers.filter(({ status }) => status === 429)).toHaveLength(30);
    expect(await gateway.upstream.requests()).toHaveLength(10);
    expect(await used(gateway)).toEqual([10, 10 * (PROMPT_TOKENS + 1)]);
    await gateway.upstream.openGate("end");
    await Promise.all(running.map((response) => response.text()));
    expect(await used(gateway)).toEqual([10, 10 * 12]);
  });

  test("whoever leaves when, nothing is left behind but what was used", async () => {
    const gateway = await limited({ ...LIMITS, tokensPerMinuteMax: 100_000, concurrencyMax: 8 });
    await gateway.upstream.answerWith(
      streamThatGoesOn(
        ["a"],
        { kind: "pause", ms: 20 },
        tokenFrame("b"),
        { kind: "pause", ms: 20 },
        ...streamedAnswer(["c"]).slice(2),
      ),
      [{ kind: "pause", ms: 30 }, ...wholeAnswer("a")],
    );
    const leave = async (index: number): Promise<void> => {
      const left = new AbortController();
      const asked = index % 2 === 0 ? STREAM : WHOLE;
      const answer = gateway.ask({ ...asked, signal: left.signal }).then((got) => got.text());
      await scheduler.wait((index * 7) % 61);
      left.abort();
      await answer.catch(() => {});
    };
    await Promise.all(Array.from({ length: 60 }, (_, index) => leave(index)));
    await becomesIdle(gateway);
    const limits = { ...LIMITS, tokensPerMinuteMax: 100_000 };
    await vi.waitFor(async () => expect(await placesOf(gateway, 8)).toBe(8), WAIT);
    const [requests, tokens] = await usedOf(gateway.tenantId, limits);
    expect(requests).toBeLessThanOrEqual(60);
    expect(tokens).toBeLessThanOrEqual(requests * BOUND);
    skipTime(61_000);
    expect(await usedOf(gateway.tenantId, limits)).toEqual([0, 0]);
  });
});
