import { describe, expect, test, vi } from "vitest";
import type { UpstreamStep } from "../support/upstream-script.ts";
import { refusal } from "./support/answers.ts";
import type { ClientEvent, TestGateway } from "./support/gateway.ts";
import {
  aGateway,
  becomesIdle,
  errorEvent,
  fetchGateway,
  readEvents,
  textOf,
  WAIT,
} from "./support/gateway.ts";
import {
  START,
  tellingAnswer,
  tellingFrames,
  tellingHead,
  tokenIdsOf,
  toldFrame,
} from "./support/telling-replica.ts";
import { chunkFrame, streamedAnswer, wholeAnswer } from "./support/upstream.ts";

const WORDS = ["Once", " upon", " a", " time", " there", " was"];
const TEXT = WORDS.join("");
/** Three of its words. */
const BEGUN = "Once upon a";
const STREAM = { body: { stream: true, stream_options: { include_usage: true } } };
/** A reset takes with it what its receiver has not read yet. */
const RESET: readonly UpstreamStep[] = [{ kind: "pause", ms: 40 }, { kind: "reset" }];
/** What the first replica names the answer. */
const FIRST = { id: "chatcmpl-first", created: 1_700_000_001 };
const HANG = { kind: "hang" } as const;
const END = { kind: "end" } as const;
const DONE = { data: "[DONE]" };
const errorFrame = (code: string): UpstreamStep => ({
  kind: "text",
  text: `event: error\ndata: {"error":{"message":"gone","code":"${code}"}}\n\n`,
});
/** By then a stream that pauses is over, and by half of that gone on with: long for a machine that is busy, too. */
const STALL_MS = 4_800;

/** A gateway of a tenant that wants its answers gone on with. */
function aContinuingGateway(
  wish: Parameters<typeof aGateway>[0] = {},
): ReturnType<typeof aGateway> {
  return aGateway({ replicaCount: 2, ...wish, tenant: { continuation: true, ...wish.tenant } });
}

/** The beginning of an answer: its first `count` frames, and what comes then. */
function cutBehind(count: number, ...steps: readonly UpstreamStep[]): UpstreamStep[] {
  return [tellingHead(), ...tellingFrames(WORDS).slice(0, count), ...steps];
}

/** What another replica sends that goes on behind so many words. */
const rest = (from: number, name = "second") => tellingAnswer(WORDS, from, name);

/** What a client makes of a stream. */
function answerOf(events: readonly ClientEvent[]) {
  const errors = events.filter(({ event }) => event === "error");
  const chunks = events
    .filter(({ event, data }) => event !== "error" && data !== "[DONE]")
    .map(({ data }) => Object(data));
  const choices = chunks.flatMap((chunk) => chunk.choices);
  return {
    text: textOf(events),
    roles: choices.flatMap(({ delta }) => delta.role ?? []),
    finishReasons: choices.flatMap(({ finish_reason: reason }) => reason ?? []),
    names: [...new Set(chunks.map(({ id, created }) => `${id} ${created}`))],
    usages: chunks.flatMap(({ usage }) => usage ?? []),
    errors,
    end: events.at(-1),
    isClean: !JSON.stringify(events).includes("sluice_"),
  };
}

/** All of the answer, as one replica would have sent it that never failed. */
const WHOLE: ReturnType<typeof answerOf> = {
  text: TEXT,
  roles: ["assistant"],
  finishReasons: ["stop"],
  names: ["chatcmpl-first 1700000001"],
  usages: [
    {
      prompt_tokens: 12,
      completion_tokens: 7,
      total_tokens: 19,
      prompt_tokens_details: { cached_tokens: 4 },
    },
  ],
  errors: [],
  end: { data: "[DONE]" },
  isClean: true,
};

/** The beginning of an answer and one error behind it. */
const broken = (text: string, code = "upstream_error") => ({
  text,
  finishReasons: [],
  errors: [errorEvent(code)],
  end: errorEvent(code),
  isClean: true,
});

/** What each replica was asked to go on with, in order, and where they were. */
async function asked({ upstream }: TestGateway) {
  const requests = await upstream.requests();
  return requests.map(({ address, body, headers }) => ({
    address,
    continuation: JSON.parse(body).sluice_continuation,
    tells: headers["x-gw-tell-tokens"],
  }));
}

/** Reads a stream as it comes, until its client leaves. */
function readOn(response: Response): void {
  response.text().catch(() => {});
}

async function outcomesOf(gateway: TestGateway) {
  await becomesIdle(gateway);
  const records = await gateway.decisions();
  const calls = records.flatMap((record) => record.calls.map(({ call }) => call));
  return calls.flatMap((call) => (call.kind === "settle" ? [call.outcome] : []));
}

/** Requests, prompt and output tokens, and how many requests were not counted by a replica. */
async function usageOf({ key }: TestGateway): Promise<unknown[]> {
  const headers = { authorization: `Bearer ${key}` };
  const usage: Record<string, unknown> = await (
    await fetchGateway("/v1/usage", { headers })
  ).json();
  const { requests, prompt_tokens, completion_tokens, estimated_requests } = usage;
  return [requests, prompt_tokens, completion_tokens, estimated_requests];
}

describe("a stream whose replica fails under way", () => {
  test.each([1, 2, 3, 4, 5, 6])("behind chunk %i goes on elsewhere, unseen", async (count) => {
    const gateway = await aContinuingGateway();
    await gateway.upstream.answerWith(cutBehind(count, ...RESET), rest(count));
    expect(answerOf(await readEvents(await gateway.ask(STREAM)))).toEqual(WHOLE);
    const [first, second] = await asked(gateway);
    expect(first).toMatchObject({ continuation: undefined, tells: "1" });
    expect(second?.continuation).toEqual({ ...START, token_ids: tokenIdsOf(0, count) });
    expect(second?.address).not.toBe(first?.address);
    await becomesIdle(gateway);
    expect(await usageOf(gateway)).toEqual([1, 12, 7, 0]);
  });

  test.each([
    ["ends without its end marker", [END]],
    ["says that it was lost", [errorFrame("upstream_error"), END]],
    ["says that it is full", [errorFrame("server_is_overloaded"), END]],
    ["says nonsense", [{ kind: "text" as const, text: "data: {\n\n" }, HANG]],
    ["says that it is done when it is not", [{ kind: "text" as const, text: "data: [DONE]\n\n" }]],
    ["ends in an abort", [chunkFrame({ finish_reason: "abort" }, FIRST), HANG]],
    [
      "breaks off in the middle of a frame",
      [{ kind: "text" as const, text: 'data: {"id":' }, ...RESET],
    ],
    [
      "breaks off in the middle of a character",
      [
        { kind: "bytes" as const, base64: btoa('data: {"choices":[{"delta":{"content":"\xf0\x9f') },
        ...RESET,
      ],
    ],
  ])("and %s goes on as well", async (_, steps) => {
    const gateway = await aContinuingGateway();
    await gateway.upstream.answerWith(cutBehind(3, ...steps), rest(3));
    expect(answerOf(await readEvents(await gateway.ask(STREAM)))).toEqual(WHOLE);
  });

  test("goes on from what its tokens account for, and says nothing twice", async () => {
    const gateway = await aContinuingGateway();
    const part = chunkFrame({ delta: { content: " a" } }, FIRST);
    await gateway.upstream.answerWith(cutBehind(2, part, ...RESET), rest(2));
    expect(answerOf(await readEvents(await gateway.ask(STREAM)))).toEqual(WHOLE);
  });

  test("shows what its chunks bring together as soon as their tokens are told", async () => {
    const gateway = await aContinuingGateway();
    const part = chunkFrame({ delta: { content: " a" } }, FIRST);
    const whole = toldFrame({ delta: { content: " time" } }, tokenIdsOf(2, 4));
    await gateway.upstream.answerWith(cutBehind(2, part, whole, ...RESET), rest(4));
    expect(answerOf(await readEvents(await gateway.ask(STREAM)))).toEqual(WHOLE);
    expect((await asked(gateway))[1]?.continuation.token_ids).toEqual(tokenIdsOf(0, 4));
  });

  test("keeps what had come with the failure in one piece", async () => {
    const gateway = await aContinuingGateway();
    const frames = tellingFrames(WORDS).slice(2, 4);
    const text = frames.map((frame) => (frame.kind === "text" ? frame.text : "")).join("");
    const together = { kind: "text", text: `${text}data: {\n\n` } as const;
    await gateway.upstream.answerWith(cutBehind(2, together, HANG), rest(4));
    expect(answerOf(await readEvents(await gateway.ask(STREAM)))).toEqual(WHOLE);
  });

  test("at an even pace loses nothing that was held", async () => {
    const pace = { percentileRatio: 0.99, limitMs: 200 };
    const gateway = await aContinuingGateway({ tenant: { targets: { tpot: pace } } });
    const slowly = cutBehind(4).flatMap((step) => [step, { kind: "pause", ms: 10 } as const]);
    await gateway.upstream.answerWith([...slowly, ...RESET], rest(4));
    const headers = { "x-sluice-pace": "1" };
    expect(answerOf(await readEvents(await gateway.ask({ ...STREAM, headers })))).toEqual(WHOLE);
  });

  test("twice goes on twice, and may come back to where it began", async () => {
    const gateway = await aContinuingGateway();
    const second = [tellingHead(2), ...tellingFrames(WORDS, 2, "second").slice(0, 2), ...RESET];
    await gateway.upstream.answerWith(cutBehind(2, ...RESET), second, rest(4, "third"));
    expect(answerOf(await readEvents(await gateway.ask(STREAM)))).toEqual(WHOLE);
    const [first, next, last] = await asked(gateway);
    expect(last?.continuation).toEqual({ ...START, token_ids: tokenIdsOf(0, 4) });
    expect(next?.address).not.toBe(first?.address);
    expect(last?.address).toBe(first?.address);
    expect(await outcomesOf(gateway)).toMatchObject([
      { kind: "upstream-failed", isInterrupted: true, promptTokens: 12, outputTokens: 2 },
      { kind: "upstream-failed", isInterrupted: true, outputTokens: 2 },
      { kind: "completed", outputTokens: 3 },
    ]);
    expect(await usageOf(gateway)).toEqual([1, 12, 7, 0]);
  });

  test("is tried elsewhere again where the next replica has nothing new", async () => {
    const gateway = await aContinuingGateway({ replicaCount: 3 });
    await gateway.upstream.answerWith(cutBehind(3, ...RESET), [tellingHead(3), ...RESET], rest(3));
    expect(answerOf(await readEvents(await gateway.ask(STREAM)))).toEqual(WHOLE);
    const addresses = (await asked(gateway)).map(({ address }) => address);
    expect(new Set(addresses).size).toBe(3);
  });

  test("costs each of its replicas what it did, and its tenant one request", async () => {
    const gateway = await aContinuingGateway();
    await gateway.upstream.answerWith(cutBehind(4, ...RESET), rest(4));
    await readEvents(await gateway.ask(STREAM));
    const [first, second, ...others] = await outcomesOf(gateway);
    expect(others).toEqual([]);
    expect(first).toEqual({
      kind: "upstream-failed",
      isInterrupted: true,
      promptTokens: 12,
      cachedTokens: 4,
      outputTokens: 4,
      firstTokenAfterMs: expect.any(Number),
    });
    expect(second).toEqual({
      kind: "completed",
      outputTokens: 3,
      firstTokenAfterMs: expect.any(Number),
      decodeMs: expect.any(Number),
      attainment: { kind: "good", missed: [], isDegraded: false },
    });
    const { tenants, replicas } = await gateway.poolStatus();
    expect(tenants).toMatchObject([{ counts: { offered: 1, admitted: 1, good: 1, missed: 0 } }]);
    expect(replicas.map(({ health }) => health).toSorted()).toEqual(["healthy", "suspect"]);
  });

  test("is told in its line of the log", async () => {
    const lines = vi.spyOn(console, "log").mockImplementation(() => {});
    const gateway = await aContinuingGateway();
    await gateway.upstream.answerWith(cutBehind(4, ...RESET), rest(4));
    const response = await gateway.ask(STREAM);
    await response.text();
    await becomesIdle(gateway);
    const requestId = response.headers.get("x-request-id") ?? "none";
    const own = await vi.waitFor(() => {
      const line = lines.mock.calls.map(String).find((text) => text.includes(requestId));
      if (line === undefined) throw new Error("The request has no line yet");
      return JSON.parse(line);
    }, WAIT);
    lines.mockRestore();
    const [, second] = await asked(gateway);
    expect(own).toMatchObject({
      outcome: "completed",
      attempts: 2,
      continuations: 1,
      replicaId: gateway.upstream.endpointUrlOf(second?.address ?? 0),
      promptTokens: 12,
      cachedTokens: 4,
      outputTokens: 7,
    });
    expect(own.ttftMs).toBeLessThan(own.durationMs);
  });

  test("misses its gap by the time in which nothing came, and not its first token", async () => {
    const targets = {
      ttft: { percentileRatio: 0.99, limitMs: 5_000 },
      tpot: { percentileRatio: 0.99, limitMs: 1_000 },
      tbtMaxMs: 250,
    };
    const gateway = await aContinuingGateway({ tenant: { targets } });
    const [head, ...late] = rest(3);
    await gateway.upstream.answerWith(cutBehind(3, ...RESET), [
      head ?? END,
      { kind: "pause", ms: 400 },
      ...late,
    ]);
    expect(answerOf(await readEvents(await gateway.ask(STREAM)))).toEqual(WHOLE);
    expect((await outcomesOf(gateway))[1]).toMatchObject({
      attainment: { kind: "missed", missed: ["tbt"] },
    });
  });
});

describe("a stream whose replica pauses", () => {
  const tenant = { timeouts: { stallMs: STALL_MS } };

  test("is gone on with elsewhere while there is time for that", async () => {
    const gateway = await aContinuingGateway({ tenant });
    await gateway.upstream.answerWith(cutBehind(3, HANG), rest(3));
    const askedAtMs = Date.now();
    expect(answerOf(await readEvents(await gateway.ask(STREAM)))).toEqual(WHOLE);
    expect(Date.now() - askedAtMs).toBeLessThan(STALL_MS);
    const [first] = await gateway.upstream.requests();
    expect(first?.closedEarly).toBe(true);
  });

  test("is waited for where there is no other, and then ends in one error", async () => {
    const gateway = await aContinuingGateway({ tenant, replicaCount: 1 });
    await gateway.upstream.answerWith(cutBehind(3, HANG));
    expect(answerOf(await readEvents(await gateway.ask(STREAM)))).toMatchObject(
      broken(BEGUN, "timeout"),
    );
    await becomesIdle(gateway);
  });

  test("and comes back while it is waited for goes on by itself", async () => {
    const gateway = await aContinuingGateway({ tenant, replicaCount: 1 });
    const pause = { kind: "pause", ms: STALL_MS / 2 + 200 } as const;
    await gateway.upstream.answerWith([
      ...cutBehind(3, pause),
      ...tellingFrames(WORDS).slice(3),
      END,
    ]);
    expect(answerOf(await readEvents(await gateway.ask(STREAM)))).toEqual(WHOLE);
  });

  test("ends in one error where the next one pauses as well", async () => {
    const gateway = await aContinuingGateway({ tenant });
    await gateway.upstream.answerWith(cutBehind(3, ...RESET), [tellingHead(3), HANG]);
    const askedAtMs = Date.now();
    expect(answerOf(await readEvents(await gateway.ask(STREAM)))).toMatchObject(
      broken(BEGUN, "timeout"),
    );
    expect(Date.now() - askedAtMs).toBeLessThan(2 * STALL_MS);
    await becomesIdle(gateway);
  });
});

describe("a stream that nobody can go on with ends in one error", () => {
  test("where there is no other replica", async () => {
    const gateway = await aContinuingGateway({ replicaCount: 1 });
    await gateway.upstream.answerWith(cutBehind(3, ...RESET));
    expect(answerOf(await readEvents(await gateway.ask(STREAM)))).toMatchObject(broken(BEGUN));
    await becomesIdle(gateway);
    expect(await usageOf(gateway)).toEqual([1, 12, 3, 1]);
    const { tenants } = await gateway.poolStatus();
    expect(tenants).toMatchObject([{ counts: { offered: 1, admitted: 1, good: 0, missed: 1 } }]);
  });

  test("where the attempts are used up", async () => {
    const gateway = await aContinuingGateway({ tenant: { attemptsMax: 2 }, replicaCount: 3 });
    const second = [tellingHead(2), ...tellingFrames(WORDS, 2, "second").slice(0, 1), ...RESET];
    await gateway.upstream.answerWith(cutBehind(2, ...RESET), second);
    expect(answerOf(await readEvents(await gateway.ask(STREAM)))).toMatchObject(broken(BEGUN));
    expect(await asked(gateway)).toHaveLength(2);
    await becomesIdle(gateway);
    const { tenants } = await gateway.poolStatus();
    expect(tenants).toMatchObject([{ counts: { offered: 1, admitted: 1, good: 0, missed: 1 } }]);
  });

  test.each([
    ["begins anew", streamedAnswer(WORDS)],
    ["goes on from elsewhere", rest(2)],
    ["would go on otherwise", refusal(412, { error: { code: "continuation_mismatch" } })],
    ["refuses the request", refusal(400, { error: { message: "no" } })],
    ["breaks by it", refusal(500, { error: { message: "no" } })],
  ])("where the other one %s", async (_, steps) => {
    const gateway = await aContinuingGateway();
    await gateway.upstream.answerWith(cutBehind(3, ...RESET), steps);
    expect(answerOf(await readEvents(await gateway.ask(STREAM)))).toMatchObject(broken(BEGUN));
    await becomesIdle(gateway);
    expect(await usageOf(gateway)).toEqual([1, 12, 3, 1]);
    const { tenants } = await gateway.poolStatus();
    expect(tenants).toMatchObject([{ counts: { offered: 1, admitted: 1, good: 0, missed: 1 } }]);
  });

  test("where it breaks the engine wherever it goes", async () => {
    const gateway = await aContinuingGateway();
    await gateway.upstream.answerWith(cutBehind(3, errorFrame("internal_error"), END), rest(3));
    expect(answerOf(await readEvents(await gateway.ask(STREAM)))).toMatchObject(
      broken(BEGUN, "internal_error"),
    );
    expect(await asked(gateway)).toHaveLength(1);
  });

  test("where more tokens are told than any context has", async () => {
    const gateway = await aContinuingGateway({ contextTokens: 64 });
    const endless = toldFrame({ delta: { content: "!" } }, tokenIdsOf(0, 65));
    await gateway.upstream.answerWith(cutBehind(1, endless, ...RESET), rest(1));
    expect(answerOf(await readEvents(await gateway.ask(STREAM)))).toMatchObject(broken("Once!"));
    expect(await asked(gateway)).toHaveLength(1);
  });

  test("at an even pace behind all that was held", async () => {
    const pace = { percentileRatio: 0.99, limitMs: 200 };
    const gateway = await aContinuingGateway({
      replicaCount: 1,
      tenant: { targets: { tpot: pace } },
    });
    const slowly = cutBehind(3).flatMap((step) => [step, { kind: "pause", ms: 10 } as const]);
    await gateway.upstream.answerWith([...slowly, ...RESET]);
    const headers = { "x-sluice-pace": "1" };
    expect(answerOf(await readEvents(await gateway.ask({ ...STREAM, headers })))).toMatchObject(
      broken(BEGUN),
    );
  });

  test("where all of it is there, it is whole without its counts", async () => {
    const gateway = await aContinuingGateway();
    await gateway.upstream.answerWith(cutBehind(7, ...RESET), rest(6));
    const events = await readEvents(await gateway.ask(STREAM));
    expect(textOf(events)).toBe(TEXT);
    expect(events.at(-1)).toEqual(DONE);
    expect(await asked(gateway)).toHaveLength(1);
  });
});

describe("who did not ask for it", () => {
  test.each([
    ["a tenant that did not", {}, {}],
    ["a request for several choices", { tenant: { continuation: true } }, { n: 2 }],
  ])("%s has an answer that breaks", async (_, wish, body) => {
    const gateway = await aGateway({ replicaCount: 2, ...wish });
    await gateway.upstream.answerWith(cutBehind(3, ...RESET), rest(3));
    const events = await readEvents(await gateway.ask({ body: { ...STREAM.body, ...body } }));
    expect(answerOf(events)).toMatchObject(broken(BEGUN));
    expect(await asked(gateway)).toMatchObject([{ tells: undefined }]);
  });

  test("the client of a server that only speaks the API neither", async () => {
    const gateway = await aContinuingGateway({ pool: { engine: "openai" } });
    await gateway.upstream.answerWith([...streamedAnswer(WORDS).slice(0, 4), ...RESET]);
    expect(answerOf(await readEvents(await gateway.ask(STREAM)))).toMatchObject(
      broken("Once upon"),
    );
    expect(await asked(gateway)).toMatchObject([{ tells: undefined }]);
  });

  test("a client cannot make up what an answer begins with", async () => {
    const gateway = await aContinuingGateway();
    await gateway.upstream.answerWith(wholeAnswer("a"));
    await gateway.ask({ body: { sluice_continuation: { ...START, token_ids: [1] } } });
    expect(await asked(gateway)).toMatchObject([{ continuation: undefined }]);
  });
});

describe("a client that leaves while its answer goes on elsewhere", () => {
  test.each([
    ["waits for its next replica's head", [HANG]],
    ["waits for its next token", [tellingHead(3), HANG]],
  ])("and %s leaves nothing behind", async (_, steps) => {
    const gateway = await aContinuingGateway({ tenant: { concurrencyMax: 1 } });
    await gateway.upstream.answerWith(cutBehind(3, ...RESET), steps);
    const left = new AbortController();
    readOn(await gateway.ask({ ...STREAM, signal: left.signal }));
    await vi.waitFor(async () => expect(await asked(gateway)).toHaveLength(2), WAIT);
    left.abort();
    await becomesIdle(gateway);
    await vi.waitFor(async () => {
      const [, second] = await gateway.upstream.requests();
      expect(second?.closedEarly).toBe(true);
    }, WAIT);
    await gateway.upstream.answerWith(wholeAnswer("next"));
    expect((await gateway.ask()).status).toBe(200);
    await vi.waitFor(async () => expect(await usageOf(gateway)).toEqual([2, 24, 6, 1]), WAIT);
    await vi.waitFor(async () => {
      expect((await outcomesOf(gateway))[1]).toMatchObject({ kind: "client-gone" });
    }, WAIT);
  });

  test("while it waits in the pool is withdrawn", async () => {
    const hello = { sequencesMax: 1, queueMax: 0 };
    const gateway = await aContinuingGateway({ replica: { hello } });
    const gate = { kind: "gate", name: "cut" } as const;
    await gateway.upstream.answerWith(cutBehind(3, gate, ...RESET), cutBehind(1, HANG));
    const left = new AbortController();
    readOn(await gateway.ask({ ...STREAM, signal: left.signal }));
    const other = new AbortController();
    readOn(await gateway.ask({ ...STREAM, signal: other.signal }));
    await gateway.upstream.openGate("cut");
    await vi.waitFor(async () => {
      expect(await gateway.poolStatus()).toMatchObject({ queued: 1, leases: 1 });
    }, WAIT);
    left.abort();
    await vi.waitFor(async () => {
      expect(await gateway.poolStatus()).toMatchObject({ queued: 0, leases: 1 });
    }, WAIT);
    other.abort();
    await becomesIdle(gateway);
    expect(await asked(gateway)).toHaveLength(2);
  });
});
