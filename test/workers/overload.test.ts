import { describe, expect, test, vi } from "vitest";
import { ModelId } from "../../src/protocol/ids.ts";
import type { OverloadLadder } from "../../src/tenants/overload-step.ts";
import { issueKey } from "./support/admin.ts";
import { refusal, streamThatGoesOn } from "./support/answers.ts";
import type { GatewayWish, TestGateway } from "./support/gateway.ts";
import {
  aGateway,
  becomesIdle,
  COMPLETION_PATH,
  fetchGateway,
  readEvents,
  textOf,
  WAIT,
} from "./support/gateway.ts";
import { streamedAnswer, wholeAnswer } from "./support/upstream.ts";

const MODEL = ModelId.parse("sluice-tiny");
const SMALL = ModelId.parse("small");
const FALL_BACK = { kind: "fallback", modelId: SMALL } as const;

/** No token of an answer that is to have 2,000 of them could be in time; of a short one all could. */
const SOON: GatewayWish["tenant"] = { targets: { e2e: { percentileRatio: 0.99, limitMs: 3_000 } } };
const LONG = { max_tokens: 2_000 };
/** Within what the tenant is guaranteed. */
const SHORT = { max_tokens: 8 };

/** A gateway whose model has room for one request, beside another model that has as much as there is. */
function aNarrowGateway(
  overload: OverloadLadder,
  { smallContextTokens, ...wish }: GatewayWish & { readonly smallContextTokens?: number } = {},
): Promise<TestGateway> {
  const small = {
    modelId: SMALL,
    upstreamModel: "small-upstream",
    ...(smallContextTokens !== undefined && { contextTokens: smallContextTokens }),
  };
  return aGateway({
    ...wish,
    tenant: { ...wish.tenant, overload: [...overload] },
    furtherModels: [small],
    pool: { modelLimits: [{ modelId: MODEL, requestsMax: 1 }] },
  });
}

/** Takes the one place of the model until the gate is opened; a response that nobody holds may be given up. */
async function occupy(
  { ask, upstream }: TestGateway,
  answer = wholeAnswer("short"),
): Promise<Response> {
  await upstream.answerWith(
    streamThatGoesOn(["a"], { kind: "gate", name: "end" }, ...streamedAnswer([]).slice(2)),
    answer,
  );
  return ask({ body: { ...SHORT, stream: true } });
}

async function lastBody({ upstream }: TestGateway): Promise<Record<string, unknown>> {
  const body: Record<string, unknown> = JSON.parse(
    (await upstream.requests()).at(-1)?.body ?? "{}",
  );
  return body;
}

describe("clamp_max_tokens", () => {
  const CLAMP = [{ kind: "clamp", outputTokensMax: 8 }] as const;

  test("cuts an answer short that could not be in time, and tells the client", async () => {
    const gateway = await aGateway({ tenant: { ...SOON, overload: [...CLAMP] } });
    await gateway.upstream.answerWith(wholeAnswer("short"));
    const log = vi.spyOn(console, "log").mockImplementation(() => {});
    const response = await gateway.ask({ body: { ...LONG, min_tokens: 9 } });
    expect(response.status).toBe(200);
    expect(response.headers.get("x-sluice-degraded")).toBe("clamp_max_tokens=8");
    expect(await lastBody(gateway)).toMatchObject({ max_tokens: 8, min_tokens: 8 });
    await becomesIdle(gateway);
    // It met its targets, but is not what was asked for.
    const { tenants } = await gateway.poolStatus();
    expect(tenants).toMatchObject([{ counts: { good: 0, degraded: 1, missed: 0 } }]);
    await vi.waitFor(() => expect(log).toHaveBeenCalled(), WAIT);
    expect(JSON.parse(String(log.mock.calls[0]?.[0]))).toMatchObject({
      outcome: "completed",
      degraded: "clamp_max_tokens=8",
    });
  });

  test("goes by the name that the client has for its limit", async () => {
    const gateway = await aGateway({ tenant: { ...SOON, overload: [...CLAMP] } });
    await gateway.upstream.answerWith(wholeAnswer("short"));
    await gateway.ask({ body: { max_completion_tokens: 2_000, max_tokens: 1_900 } });
    expect(await lastBody(gateway)).toMatchObject({ max_completion_tokens: 8, max_tokens: 8 });
    await gateway.ask({ body: { max_completion_tokens: 2_000 } });
    expect(await lastBody(gateway)).not.toHaveProperty("max_tokens");
    await gateway.ask({ path: COMPLETION_PATH, body: { prompt: "Once", ...LONG } });
    expect(await lastBody(gateway)).toMatchObject({ max_tokens: 8 });
  });

  test("leaves alone what is in time, and what is shorter anyway", async () => {
    const gateway = await aGateway({ tenant: { ...SOON, overload: [...CLAMP] } });
    await gateway.upstream.answerWith(wholeAnswer("short"));
    const response = await gateway.ask({ body: { max_tokens: 4 } });
    expect(response.headers.get("x-sluice-degraded")).toBeNull();
    expect(await lastBody(gateway)).toMatchObject({ max_tokens: 4 });
    await becomesIdle(gateway);
    expect((await gateway.poolStatus()).tenants).toMatchObject([
      { counts: { good: 1, degraded: 0 } },
    ]);
  });

  test("holds at every further attempt", async () => {
    const gateway = await aGateway({
      tenant: { ...SOON, overload: [...CLAMP] },
      replicaCount: 2,
    });
    await gateway.upstream.answerWith([{ kind: "reset" }], wholeAnswer("short"));
    const response = await gateway.ask({ body: LONG });
    expect(response.headers.get("x-sluice-degraded")).toBe("clamp_max_tokens=8");
    const bodies = (await gateway.upstream.requests()).map(({ body }) => JSON.parse(body));
    expect(bodies).toMatchObject([{ max_tokens: 8 }, { max_tokens: 8 }]);
  });
});

describe("fallback_model", () => {
  test("answers instead of one that has no room, under its own name", async () => {
    const gateway = await aNarrowGateway([FALL_BACK]);
    const first = await occupy(gateway);
    const response = await gateway.ask({ body: SHORT });
    expect(response.status).toBe(200);
    expect(response.headers.get("x-sluice-degraded")).toBe("fallback_model=small");
    expect(await response.json()).toMatchObject({ model: "small" });
    expect(await lastBody(gateway)).toMatchObject({ model: "small-upstream" });
    await gateway.upstream.openGate("end");
    await first.text();
    await becomesIdle(gateway);
    // What went on to another model was not refused, and is none of the good ones.
    const { tenants } = await gateway.poolStatus();
    expect(tenants).toMatchObject([
      { counts: { good: 1, degraded: 1, missed: 0, rejectedInProfile: 0 } },
    ]);
  });

  test("streams under its own name, in every chunk", async () => {
    const gateway = await aNarrowGateway([FALL_BACK]);
    const first = await occupy(gateway, streamedAnswer(["Once", " upon"]));
    const response = await gateway.ask({ body: { ...SHORT, stream: true } });
    expect(response.headers.get("x-sluice-degraded")).toBe("fallback_model=small");
    const events = await readEvents(response);
    expect(textOf(events)).toBe("Once upon");
    const models = events.slice(0, -1).map(({ data }) => Object(data).model);
    expect(new Set(models)).toEqual(new Set(["small"]));
    await gateway.upstream.openGate("end");
    await first.text();
  });

  test("has a cache of its own", async () => {
    const gateway = await aNarrowGateway([FALL_BACK]);
    const first = await occupy(gateway);
    await gateway.ask({ body: SHORT });
    const salts = (await gateway.upstream.requests()).map(
      ({ headers }) => headers["x-gw-cache-salt"],
    );
    expect(new Set(salts).size).toBe(2);
    await gateway.upstream.openGate("end");
    await first.text();
  });

  test("is asked as the ladder behind its step has it", async () => {
    const gateway = await aNarrowGateway([FALL_BACK, { kind: "clamp", outputTokensMax: 8 }], {
      tenant: SOON,
    });
    await gateway.upstream.answerWith(wholeAnswer("short"));
    // Neither model could answer so long in time, and behind the other one the ladder cuts it short.
    const response = await gateway.ask({ body: LONG });
    expect(response.headers.get("x-sluice-degraded")).toBe(
      "fallback_model=small, clamp_max_tokens=8",
    );
    expect(await lastBody(gateway)).toMatchObject({ model: "small-upstream", max_tokens: 8 });
  });

  test("keeps to the limit that was put on the output before", async () => {
    const gateway = await aNarrowGateway([{ kind: "clamp", outputTokensMax: 8 }, FALL_BACK]);
    const first = await occupy(gateway);
    const response = await gateway.ask({ body: LONG });
    // The first model had no room for a short answer either.
    expect(response.headers.get("x-sluice-degraded")).toBe("fallback_model=small");
    await gateway.upstream.openGate("end");
    await first.text();
  });

  test("is refused like any other where it has no room either", async () => {
    const gateway = await aNarrowGateway([FALL_BACK], {
      tenant: SOON,
    });
    const response = await gateway.ask({ body: LONG });
    expect(response.status).toBe(503);
    expect(response.headers.get("x-sluice-degraded")).toBeNull();
    expect(await gateway.poolStatus()).toMatchObject({ leases: 0, queued: 0 });
    expect((await gateway.poolStatus()).tenants).toMatchObject([
      { counts: { rejectedInProfile: 1 } },
    ]);
  });

  test("is not asked where replicas fail, nor are more of them asked for it than for any other", async () => {
    const gateway = await aNarrowGateway([FALL_BACK], { replicaCount: 6 });
    const modelsAsked = async (): Promise<unknown[]> =>
      (await gateway.upstream.requests()).map(({ body }) => Object(JSON.parse(body)).model);
    await gateway.upstream.answerWith(refusal(503, "loading"));
    expect((await gateway.ask({ body: SHORT })).status).toBe(503);
    expect(await modelsAsked()).toEqual(["sluice-tiny", "sluice-tiny", "sluice-tiny"]);
    const first = await occupy(gateway, refusal(503, "loading"));
    const before = (await modelsAsked()).length;
    expect((await gateway.ask({ body: SHORT })).status).toBe(503);
    expect((await modelsAsked()).slice(before)).toEqual(Array(3).fill("small-upstream"));
    await gateway.upstream.openGate("end");
    await first.text();
  });

  test("is one of so many attempts where a replica of the first model failed before", async () => {
    const ladder = [{ kind: "queue", ratio: 0 } as const, FALL_BACK];
    const gateway = await aNarrowGateway(ladder, { replicaCount: 6 });
    const { upstream } = gateway;
    await upstream.answerWith(
      [{ kind: "gate", name: "fail" }, ...refusal(502, "no")],
      streamThatGoesOn(["a"], { kind: "gate", name: "end" }, ...streamedAnswer([]).slice(2)),
      refusal(502, "no"),
    );
    const asked = gateway.ask({ body: SHORT });
    await vi.waitFor(async () => expect(await upstream.requests()).toHaveLength(1), WAIT);
    // Somebody else waits for the one place of the model, and has it once the first replica has failed.
    const other = gateway.ask({ key: gateway.otherKey, body: { ...SHORT, stream: true } });
    await vi.waitFor(
      async () => expect(await gateway.poolStatus()).toMatchObject({ queued: 1 }),
      WAIT,
    );
    await upstream.openGate("fail");
    expect((await asked).status).toBe(502);
    const models = (await upstream.requests()).map(({ body }) =>
      String(Object(JSON.parse(body)).model),
    );
    expect(models.toSorted()).toEqual([
      "sluice-tiny",
      "sluice-tiny",
      "small-upstream",
      "small-upstream",
    ]);
    await upstream.openGate("end");
    await (await other).text();
    await becomesIdle(gateway);
  });

  test("is not asked for a prompt that it cannot hold, nor for one in another model's tokens", async () => {
    const gateway = await aNarrowGateway([{ kind: "queue", ratio: 0 }, FALL_BACK], {
      smallContextTokens: 4,
    });
    const first = await occupy(gateway);
    const asText = (prompt: string | number[]): Promise<Response> =>
      gateway.ask({ path: COMPLETION_PATH, body: { prompt, ...SHORT } });
    // The shortest text of so many bytes has eight tokens.
    expect((await asText("x".repeat(1_024))).status).toBe(503);
    expect((await asText([1, 2, 3])).status).toBe(503);
    expect(await gateway.upstream.requests()).toHaveLength(1);
    expect((await asText("Once")).headers.get("x-sluice-degraded")).toBe("fallback_model=small");
    await gateway.upstream.openGate("end");
    await first.text();
  });

  test("is none for a key that may not use it", async () => {
    const gateway = await aNarrowGateway([{ kind: "queue", ratio: 0 }, FALL_BACK]);
    const ofModels = (name: string, modelIds: readonly ModelId[]): Promise<string> =>
      issueKey(gateway.tenantId, { name, modelIds });
    const one = await ofModels("one", [MODEL]);
    const both = await ofModels("both", [MODEL, SMALL]);
    const first = await occupy(gateway);
    expect((await gateway.ask({ key: one, body: SHORT })).status).toBe(503);
    expect(await gateway.upstream.requests()).toHaveLength(1);
    const response = await gateway.ask({ key: both, body: SHORT });
    expect(response.headers.get("x-sluice-degraded")).toBe("fallback_model=small");
    await gateway.upstream.openGate("end");
    await first.text();
  });

  const PRICE = {
    inputPicosPerToken: 10_000_000,
    cachedInputPicosPerToken: 0,
    outputPicosPerToken: 0,
  };
  const CHEAP = { ...PRICE, inputPicosPerToken: 1_000_000 };

  test("costs what it costs, whatever was reserved for the other one", async () => {
    const gateway = await aNarrowGateway([FALL_BACK], {
      price: PRICE,
    });
    // 12 tokens of a prompt are counted.
    const spendOf = async (): Promise<unknown> => {
      const headers = { authorization: `Bearer ${gateway.key}` };
      return Object(await (await fetchGateway("/v1/usage", { headers })).json()).spend;
    };
    await gateway.upstream.answerWith(wholeAnswer("a"));
    await gateway.ask({ body: SHORT });
    expect(await spendOf()).toBe("0.00012");
    const first = await occupy(gateway);
    await gateway.ask({ body: SHORT });
    expect(await spendOf()).toBe("0.00012");
    await gateway.upstream.openGate("end");
    await first.text();
    expect(await spendOf()).toBe("0.00024");
  });

  test("reserves the dearest of those that may answer, and charges the one that did", async () => {
    const gateway = await aGateway({
      price: CHEAP,
      furtherModels: [{ modelId: SMALL, price: PRICE }],
      tenant: { overload: [FALL_BACK], spendPerMonthMaxMicros: 100 },
    });
    await gateway.upstream.answerWith(wholeAnswer("a"));
    // 21 tokens are expected of the prompt: 210 millionths of the dear model are above the limit.
    expect((await gateway.ask({ body: SHORT })).status).toBe(429);
  });
});

describe("a ladder that refuses", () => {
  test("lets nobody wait who is to be refused at once", async () => {
    const gateway = await aNarrowGateway([{ kind: "queue", ratio: 0 }, { kind: "reject" }]);
    const first = await occupy(gateway);
    const response = await gateway.ask({ body: SHORT });
    expect(response.status).toBe(503);
    await gateway.upstream.openGate("end");
    await first.text();
  });

  test("lets a request wait for its share of the target, and then goes on", async () => {
    const targets = { ttft: { percentileRatio: 0.99, limitMs: 2_000 } };
    const gateway = await aNarrowGateway([{ kind: "queue", ratio: 0.2 }, FALL_BACK], {
      tenant: { targets },
    });
    const first = await occupy(gateway, streamedAnswer(["late"]));
    const response = await gateway.ask({ body: { ...SHORT, stream: true } });
    expect(response.headers.get("x-sluice-degraded")).toBe("fallback_model=small");
    const queuedMs = /queue;dur=(\d+)/.exec(response.headers.get("server-timing") ?? "")?.[1];
    expect(Number(queuedMs)).toBeGreaterThanOrEqual(350);
    await response.text();
    await gateway.upstream.openGate("end");
    await first.text();
  });
});
