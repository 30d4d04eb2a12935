import { describe, expect, test, vi } from "vitest";
import { ADAPTERS } from "../../src/adapters/adapters.ts";
import type { ForeignEngine } from "../../src/protocol/engine-kind.ts";
import { FOREIGN_ENGINES } from "../../src/protocol/engine-kind.ts";
import type { UpstreamStep } from "../support/upstream-script.ts";
import { FINISH_FRAME, refusal, streamThatGoesOn } from "./support/answers.ts";
import type { TestGateway } from "./support/gateway.ts";
import { aGateway, becomesIdle, readEvents, WAIT } from "./support/gateway.ts";
import { jsonAnswer, wholeAnswer } from "./support/upstream.ts";

/** A pool of servers that say, as far as they are asked, that they are well. */
async function aPoolOf(engine: ForeignEngine, replicaCount = 1): Promise<TestGateway> {
  const gateway = await aGateway({ guaranteedRatios: [0, 0], replicaCount, pool: { engine } });
  const probed = ADAPTERS[engine].probePaths.map((path) => [path, jsonAnswer({})] as const);
  await gateway.upstream.saysOfItself(Object.fromEntries(probed));
  return gateway;
}

const frame = (body: object): UpstreamStep => ({
  kind: "text",
  text: `data: ${JSON.stringify(body)}\n\n`,
});
const DONE = { kind: "text", text: "data: [DONE]\n\n" } as const;
const END = { kind: "end" } as const;
const WHAT = "worker-17 ran out of memory";

/** How each tells inside a stream of status 200 that it has failed, as their sources and issues have it. */
const FAILURES: Readonly<Record<ForeignEngine, readonly UpstreamStep[]>> = {
  vllm: [
    frame({ error: { object: "error", message: WHAT, type: "InternalServerError", code: 500 } }),
    DONE,
    END,
  ],
  sglang: [
    frame({ object: "error", message: WHAT, type: "InternalServerError", code: 500 }),
    DONE,
    END,
  ],
  // It ends without a word.
  trtllm: [END],
  tgi: [
    frame({ error: `Request failed during generation: ${WHAT}`, error_type: "generation" }),
    END,
  ],
  llamacpp: [frame({ error: { code: 500, message: WHAT, type: "server_error" } }), END],
  dynamo: [frame({ choices: [{ index: 0, delta: {}, finish_reason: "error" }] }), DONE, END],
  ollama: [frame({ error: WHAT }), END],
  openai: [
    frame({ error: { message: WHAT, type: "server_error", code: null, param: null } }),
    DONE,
    END,
  ],
};

/** How each says that it is full; those that queue without a bound are told from a proxy in front of them. */
const FULL: Readonly<Record<ForeignEngine, readonly UpstreamStep[]>> = {
  vllm: refusal(429, { error: { message: "Too many", type: "rate_limit", code: 429 } }),
  sglang: refusal(503, { object: "error", message: "The request queue is full.", code: 503 }),
  trtllm: refusal(429, "Too Many Requests"),
  tgi: refusal(429, { error: "Model is overloaded", error_type: "overloaded" }),
  llamacpp: refusal(429, "Too Many Requests"),
  dynamo: refusal(529, { message: "All workers are busy", type: "overloaded", code: 529 }),
  ollama: refusal(503, {
    error: "server busy, please try again.  maximum pending requests exceeded",
  }),
  openai: refusal(429, { error: { message: "Rate limit reached", type: "requests", code: null } }),
};

describe.each(FOREIGN_ENGINES)("a server of kind %s", (engine) => {
  test("that fails in mid-stream ends in exactly one error, without its own words", async () => {
    const gateway = await aPoolOf(engine);
    await gateway.upstream.answerWith(streamThatGoesOn(["a", "b"], ...FAILURES[engine]));
    const response = await gateway.ask({ body: { stream: true } });
    const events = (await readEvents(response)).map(({ data }) => JSON.stringify(data));
    const errors = events.filter((data) => data.includes('"error"'));
    expect(errors).toHaveLength(1);
    expect(events.at(-1)).toBe(errors[0]);
    expect(events.join()).not.toMatch(/\[DONE\]|worker-17/);
    await becomesIdle(gateway);
  });

  test("that is full costs the client nothing while another one has room, and stays in use", async () => {
    const gateway = await aPoolOf(engine, 2);
    await gateway.upstream.answerWith(FULL[engine], wholeAnswer("served"));
    expect((await gateway.ask()).status).toBe(200);
    expect(await gateway.upstream.requests()).toHaveLength(2);
    await becomesIdle(gateway);
    const { replicas } = await gateway.poolStatus();
    expect(replicas.map(({ health }) => health)).toEqual(["healthy", "healthy"]);
  });

  test("that never tells its counts serves all the same", async () => {
    const gateway = await aPoolOf(engine);
    await gateway.upstream.answerWith(streamThatGoesOn(["a", "b"], FINISH_FRAME, DONE, END));
    const events = await readEvents(await gateway.ask({ body: { stream: true } }));
    expect(events.at(-1)?.data).toBe("[DONE]");
    await becomesIdle(gateway);
  });

  test("is let go of once the client is gone, and has its place free again", async () => {
    const gateway = await aPoolOf(engine);
    await gateway.upstream.answerWith(streamThatGoesOn(["a"], { kind: "hang" }));
    const left = new AbortController();
    const response = await gateway.ask({ body: { stream: true }, signal: left.signal });
    await response.body?.getReader().read();
    left.abort();
    await becomesIdle(gateway);
    await vi.waitFor(async () => {
      expect((await gateway.upstream.requests())[0]?.closedEarly).toBe(true);
    }, WAIT);
  });
});
