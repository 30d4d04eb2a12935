import { describe, expect, test, vi } from "vitest";
import { ADAPTERS } from "../../src/adapters/adapters.ts";
import type { ForeignEngine } from "../../src/protocol/engine-kind.ts";
import { FOREIGN_ENGINES } from "../../src/protocol/engine-kind.ts";
import type { UpstreamStep } from "../support/upstream-script.ts";
import { refusal, ROLE_FRAME, streamThatGoesOn } from "./support/answers.ts";
import type { GatewayWish, TestGateway } from "./support/gateway.ts";
import { aGateway, becomesIdle, readEvents, WAIT } from "./support/gateway.ts";
import { EVENT_STREAM_HEAD, jsonAnswer, wholeAnswer } from "./support/upstream.ts";

const STREAM = { body: { stream: true } };
const HANG: UpstreamStep = { kind: "hang" };
const END: UpstreamStep = { kind: "end" };
const RESET: UpstreamStep = { kind: "reset" };
/** Else a reset would take along what was written just before it. */
const PAUSE: UpstreamStep = { kind: "pause", ms: 5 };

/** A pool of servers that say, as far as they are asked, that they are well. */
async function aPoolOf(engine: ForeignEngine, wish: GatewayWish = {}): Promise<TestGateway> {
  const gateway = await aGateway({ ...wish, pool: { engine, ...wish.pool } });
  const probed = ADAPTERS[engine].probePaths.map((path) => [path, jsonAnswer({})] as const);
  await gateway.upstream.saysOfItself(Object.fromEntries(probed));
  return gateway;
}

async function receives(gateway: TestGateway, requests: number): Promise<void> {
  await vi.waitFor(async () => {
    expect(await gateway.upstream.requests()).toHaveLength(requests);
  }, WAIT);
}

/** How each says that a prompt is longer than its context, as their sources and documentation have it. */
const TOO_LONG = "too long: 9000 tokens of 4096";
const REFUSED: Readonly<Record<ForeignEngine, readonly UpstreamStep[]>> = {
  vllm: refusal(400, {
    error: { message: TOO_LONG, type: "BadRequestError", param: "input_tokens", code: 400 },
  }),
  sglang: refusal(400, {
    object: "error",
    message: TOO_LONG,
    type: "BadRequestError",
    param: null,
    code: 400,
  }),
  trtllm: refusal(400, { error: TOO_LONG }),
  tgi: refusal(422, { error: TOO_LONG, error_type: "validation" }),
  llamacpp: refusal(400, {
    error: {
      code: 400,
      message: TOO_LONG,
      type: "exceed_context_size_error",
      n_prompt_tokens: 9_000,
      n_ctx: 4_096,
    },
  }),
  dynamo: refusal(400, { message: TOO_LONG, type: "Bad Request", code: 400 }),
  ollama: refusal(400, {
    error: { message: TOO_LONG, type: "invalid_request_error", param: null, code: null },
  }),
  openai: refusal(400, {
    error: {
      message: TOO_LONG,
      type: "invalid_request_error",
      param: "messages",
      code: "context_length_exceeded",
    },
  }),
};

/** What a server does in the middle of a stream. */
const FAULTS: readonly (readonly [string, readonly UpstreamStep[]])[] = [
  ["reset", [PAUSE, RESET]],
  ["end without a word", [END]],
  ["garbage", [{ kind: "text", text: "data: <html>\n\n" }, END]],
  ["half a character", [{ kind: "bytes", base64: btoa("data: \u00e6") }, END]],
  ["half an event", [{ kind: "text", text: 'data: {"choices":[{"ind' }, PAUSE, RESET]],
  ["silence", [HANG]],
];

describe.each(FOREIGN_ENGINES)("through a server of kind %s", (engine) => {
  test("what it has no room for is refused early, with a time to come back, and never gets there", async () => {
    const gateway = await aPoolOf(engine, {
      replicaSettings: [{ requestsMax: 1 }],
      queueMax: 0,
      guaranteedRatios: [0.9, 0],
    });
    // Short, so that the tenant's guarantee is not spent by the first.
    const short = { body: { stream: true, max_tokens: 4 } };
    await gateway.upstream.answerWith(streamThatGoesOn(["a"], HANG));
    const left = new AbortController();
    await gateway.ask({ ...short, signal: left.signal });
    const refused = await gateway.ask(short);
    expect(refused.status).toBe(503);
    expect(Number(refused.headers.get("retry-after"))).toBeGreaterThanOrEqual(1);
    expect(await refused.json()).toMatchObject({ error: { code: "server_is_overloaded" } });
    expect(await gateway.upstream.requests()).toHaveLength(1);
    left.abort();
    await becomesIdle(gateway);
  });

  test("one that says it is well and is not gets nothing more, and costs no client anything", async () => {
    const gateway = await aPoolOf(engine, {
      replicaCount: 2,
      pool: { health: { ejectAfter: 1, cooldownMsMax: 120_000 } },
    });
    await gateway.upstream.answerWith([RESET], wholeAnswer("b"));
    for (let index = 0; index < 4; index += 1) {
      // oxlint-disable-next-line no-await-in-loop -- one after the other
      expect((await gateway.ask()).status).toBe(200);
    }
    const addresses = (await gateway.upstream.requests()).map(({ address }) => address);
    const [dead, ...others] = addresses;
    expect(others).toEqual(Array(4).fill(dead === 0 ? 1 : 0));
    await becomesIdle(gateway);
    const { replicas } = await gateway.poolStatus();
    expect(replicas.map(({ state, health }) => [state, health])[dead ?? 0]).toEqual([
      "ready",
      "ejected",
    ]);
  });

  test("a prompt that is too long is its client's fault, told once and in its words", async () => {
    const gateway = await aPoolOf(engine, { replicaCount: 2 });
    await gateway.upstream.answerWith(REFUSED[engine]);
    const refused = await gateway.ask();
    expect(refused.status).toBe(400);
    expect(await refused.json()).toMatchObject({ error: { message: TOO_LONG } });
    expect(await gateway.upstream.requests()).toHaveLength(1);
    await becomesIdle(gateway);
    const { replicas } = await gateway.poolStatus();
    expect(replicas.map(({ health }) => health)).toEqual(["healthy", "healthy"]);
  });

  test("a stream that breaks, whichever way, ends in exactly one error", async () => {
    const gateway = await aPoolOf(engine, { tenant: { timeouts: { stallMs: 100 } } });
    for (const [how, fault] of FAULTS) {
      // oxlint-disable-next-line no-await-in-loop -- one script after the other
      await gateway.upstream.answerWith(streamThatGoesOn(["a", "b"], ...fault));
      // oxlint-disable-next-line no-await-in-loop -- as above
      const events = await readEvents(await gateway.ask(STREAM));
      const ends = events.filter(({ event, data }) => event === "error" || data === "[DONE]");
      expect([how, ends.map(({ event }) => event)]).toEqual([how, ["error"]]);
      expect(events.at(-1)).toBe(ends[0]);
    }
    await becomesIdle(gateway);
  });

  test.each([
    ["before its head", [HANG]],
    ["before its first token", [EVENT_STREAM_HEAD, ROLE_FRAME, HANG]],
    ["in a pause", streamThatGoesOn(["a"], HANG)],
  ] as const)("who leaves %s leaves nothing behind", async (_, steps) => {
    const gateway = await aPoolOf(engine, { tenant: { concurrencyMax: 1 } });
    await gateway.upstream.answerWith(steps);
    const left = new AbortController();
    const asked = gateway.ask({ ...STREAM, signal: left.signal }).catch(() => undefined);
    await receives(gateway, 1);
    left.abort();
    await asked;
    await becomesIdle(gateway);
    await vi.waitFor(async () => {
      expect((await gateway.upstream.requests())[0]?.closedEarly).toBe(true);
    }, WAIT);
    await gateway.upstream.answerWith(wholeAnswer("next"));
    expect((await gateway.ask()).status).toBe(200);
  });

  test("who leaves while waiting never gets there", async () => {
    const gateway = await aPoolOf(engine, { replicaSettings: [{ requestsMax: 1 }] });
    await gateway.upstream.answerWith(streamThatGoesOn(["a"], HANG), wholeAnswer("next"));
    const first = new AbortController();
    await gateway.ask({ ...STREAM, signal: first.signal });
    const second = new AbortController();
    const waiting = gateway.ask({ signal: second.signal }).catch(() => undefined);
    await vi.waitFor(async () => {
      expect((await gateway.poolStatus()).queued).toBe(1);
    }, WAIT);
    second.abort();
    await waiting;
    await vi.waitFor(async () => {
      expect((await gateway.poolStatus()).queued).toBe(0);
    }, WAIT);
    expect(await gateway.upstream.requests()).toHaveLength(1);
    first.abort();
    await becomesIdle(gateway);
  });
});
