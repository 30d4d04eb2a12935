import { describe, expect, test, vi } from "vitest";
import type { PrefillOutcome } from "../../src/pool/offer.ts";
import type { ReplicaRole } from "../../src/protocol/engine-api.ts";
import { firstTokenWithin } from "../support/pool-builders.ts";
import type { UpstreamStep } from "../support/upstream-script.ts";
import { FINISH_FRAME, refusal, ROLE_FRAME, tokenFrame } from "./support/answers.ts";
import type { GatewayWish, TestGateway } from "./support/gateway.ts";
import { aGateway, becomesIdle, readEvents, textOf, WAIT } from "./support/gateway.ts";
import { namesOf } from "./support/prompt-names.ts";
import { chunkFrame, DONE_FRAME, EVENT_STREAM_HEAD, streamedAnswer } from "./support/upstream.ts";

/** Far more tokens than are computed sooner than moved. */
const LONG_PROMPT = [{ role: "user", content: "All the king's horses. ".repeat(200) }];
const LONG = { body: { stream: true, messages: LONG_PROMPT } };
const ROLES: readonly ReplicaRole[] = ["prefill", "decode"];
const HANG = { kind: "hang" } as const;

/** What an engine answers that has computed a prompt. */
const prefilled = (cachedTokens: number): UpstreamStep[] =>
  refusal(200, {
    object: "prefill",
    prompt_tokens: 1_000,
    cached_tokens: cachedTokens,
    held_tokens: 992,
  });

/** An answer whose engine found the whole prompt, as it does where that was moved to it. */
const answerOfMoved: UpstreamStep[] = [
  EVENT_STREAM_HEAD,
  ROLE_FRAME,
  tokenFrame("well"),
  FINISH_FRAME,
  chunkFrame(
    {},
    {
      choices: [],
      usage: {
        prompt_tokens: 1_000,
        completion_tokens: 1,
        total_tokens: 1_001,
        prompt_tokens_details: { cached_tokens: 992 },
      },
    },
  ),
  DONE_FRAME,
  { kind: "end" },
];

function aSplitGateway(wish: GatewayWish = {}): Promise<TestGateway> {
  const tenant = { targets: firstTokenWithin(20_000) };
  return aGateway({ replicaCount: 2, roles: ROLES, tenant, ...wish });
}

/** What the pool was told of prompts computed elsewhere, in order. */
async function outcomesOf(gateway: TestGateway): Promise<PrefillOutcome["kind"][]> {
  await becomesIdle(gateway);
  const records = await gateway.decisions();
  return records
    .flatMap(({ calls }) => calls)
    .flatMap(({ call }) => (call.kind === "prefilled" ? [call.outcome.kind] : []));
}

/** Where requests went, and whether each was for the prompt alone or named somebody who has it. */
async function waysOf(gateway: TestGateway) {
  const requests = await gateway.upstream.requests();
  return requests.map(({ address, headers }) => ({
    address,
    isPrefill: headers["x-gw-prefill-only"] === "1",
    peer: headers["x-gw-kv-peer"],
  }));
}

describe("a long prompt, where one replica prefills and another decodes", () => {
  test("is computed by the one, and answered by the other, who is told where it is", async () => {
    const gateway = await aSplitGateway();
    await gateway.upstream.answerWith(prefilled(0), streamedAnswer(["Humpty", " sat"]));
    const events = await readEvents(await gateway.ask(LONG));
    expect(textOf(events)).toBe("Humpty sat");
    expect(events.at(-1)).toEqual({ data: "[DONE]" });
    const peer = gateway.upstream.endpointUrlOf(0);
    expect(await waysOf(gateway)).toEqual([
      { address: 0, isPrefill: true, peer: undefined },
      { address: 1, isPrefill: false, peer },
    ]);
    const [first, second] = await gateway.upstream.requests();
    expect(first?.body).toBe(second?.body);
    for (const name of ["x-gw-cache-salt", "x-gw-chain", "x-gw-request-id", "authorization"]) {
      expect([name, first?.headers[name]]).toEqual([name, second?.headers[name]]);
      expect(first?.headers[name]).toBeDefined();
    }
    expect(first?.headers["x-gw-dispatch"]).not.toBe(second?.headers["x-gw-dispatch"]);
    expect(await outcomesOf(gateway)).toEqual(["done"]);
    expect(await gateway.poolStatus()).toMatchObject({ offered: 1, dispatched: 2, split: 1 });
  });

  test("counts as cached what the first had, not what was moved", async () => {
    const gateway = await aSplitGateway();
    await gateway.upstream.answerWith(prefilled(128), answerOfMoved, prefilled(0), answerOfMoved);
    for (const cachedTokens of [128, 0]) {
      // Another prompt each time, or the second one would have it.
      const messages = [{ role: "user", content: `${cachedTokens} horses. `.repeat(300) }];
      const body = { stream: true, stream_options: { include_usage: true }, messages };
      // oxlint-disable-next-line no-await-in-loop -- one after the other
      const response = await gateway.ask({ body });
      expect(response.headers.get("server-timing")?.includes("cache")).toBe(cachedTokens > 0);
      // oxlint-disable-next-line no-await-in-loop -- as above
      const usages = (await readEvents(response)).map(({ data }) => Object(data).usage);
      const [usage] = usages.filter(Boolean);
      expect(usage).toMatchObject({
        prompt_tokens: 1_000,
        prompt_tokens_details: { cached_tokens: cachedTokens },
      });
    }
    await becomesIdle(gateway);
    const records = await gateway.decisions();
    const settled = records
      .flatMap(({ calls }) => calls)
      .flatMap(({ call }) => (call.kind === "settle" ? [call.outcome] : []));
    expect(settled).toMatchObject([{ cachedTokens: 128 }, { cachedTokens: 0 }]);
  });

  test("does the same for an answer that comes whole", async () => {
    const gateway = await aSplitGateway();
    const usage = {
      prompt_tokens: 1_000,
      completion_tokens: 1,
      total_tokens: 1_001,
      prompt_tokens_details: { cached_tokens: 992 },
    };
    const message = { role: "assistant", content: "well" };
    const answer = {
      object: "chat.completion",
      choices: [{ index: 0, message, finish_reason: "stop" }],
      usage,
    };
    await gateway.upstream.answerWith(prefilled(16), refusal(200, answer));
    const response = await gateway.ask({ body: { messages: LONG_PROMPT } });
    expect(await response.json()).toMatchObject({
      usage: { prompt_tokens_details: { cached_tokens: 16 } },
    });
    expect(await outcomesOf(gateway)).toEqual(["done"]);
  });
});

describe("where the replica that prefills fails", () => {
  const FAILURES: readonly (readonly [string, readonly UpstreamStep[], PrefillOutcome["kind"]])[] =
    [
      ["resets the connection", [{ kind: "reset" }], "failed"],
      ["answers 500", refusal(500, "no"), "failed"],
      [
        "is full",
        refusal(503, { error: { message: "full", code: "server_is_overloaded" } }),
        "refused",
      ],
      ["refuses the request", refusal(400, { error: { message: "bad" } }), "refused"],
      ["sends rubbish", refusal(200, "<html>"), "refused"],
      ["sends JSON of another kind", refusal(200, { object: "list" }), "refused"],
      ["sends half an answer", [...prefilled(0).slice(0, 1), { kind: "reset" }], "failed"],
      ["generates, as one of another version does", streamedAnswer(["ever"]), "refused"],
    ];
  for (const [what, steps, kind] of FAILURES) {
    test(`${what}: the other one computes the prompt as well`, async () => {
      const gateway = await aSplitGateway();
      await gateway.upstream.answerWith(steps, streamedAnswer(["all", " mine"]));
      expect(textOf(await readEvents(await gateway.ask(LONG)))).toBe("all mine");
      expect((await waysOf(gateway))[1]).toEqual({ address: 1, isPrefill: false, peer: undefined });
      expect(await outcomesOf(gateway)).toEqual([kind]);
      // It was no attempt at the answer.
      const { tenants } = await gateway.poolStatus();
      expect(tenants).toMatchObject([{ counts: { offered: 1, admitted: 1, good: 1, missed: 0 } }]);
    });
  }

  test("is asked for nothing more, although it has the prompt from before", async () => {
    const gateway = await aSplitGateway();
    const [replica] = gateway.replicas;
    const stored = namesOf(gateway, LONG.body);
    replica?.report({ cached: { sequence: 1, isWhole: true, stored, removed: "" } });
    await vi.waitFor(async () => {
      const calls = (await gateway.decisions()).flatMap((record) => record.calls);
      expect(calls.some(({ call }) => call.kind === "report" && call.report.cached)).toBe(true);
    }, WAIT);
    await gateway.upstream.answerWith(refusal(500, "no"), streamedAnswer(["mine"]));
    expect(textOf(await readEvents(await gateway.ask(LONG)))).toBe("mine");
    const dispatched = (await gateway.decisions())
      .flatMap(({ calls }) => calls)
      .flatMap(({ effects }) => effects.filter(({ kind }) => kind === "dispatch"));
    expect(dispatched).toMatchObject([
      { dispatch: { kvPeerUrl: gateway.upstream.endpointUrlOf(0) } },
    ]);
    expect((await waysOf(gateway))[1]).toEqual({ address: 1, isPrefill: false, peer: undefined });
  });

  test("is silent: it is given up while there is time for the other one", async () => {
    const tenant = { targets: firstTokenWithin(6_000) };
    const gateway = await aSplitGateway({ tenant });
    await gateway.upstream.answerWith([HANG], streamedAnswer(["in", " time"]));
    const askedAtMs = Date.now();
    expect(textOf(await readEvents(await gateway.ask(LONG)))).toBe("in time");
    expect(Date.now() - askedAtMs).toBeLessThan(6_000);
    expect(await outcomesOf(gateway)).toEqual(["late"]);
    await vi.waitFor(async () => {
      const [first] = await gateway.upstream.requests();
      expect(first?.closedEarly).toBe(true);
    }, WAIT);
  });
});

describe("where the replica that decodes fails", () => {
  test("another one answers, and is told where the prompt is", async () => {
    const roles = ["prefill", "decode", "decode"] as const;
    const gateway = await aSplitGateway({ replicaCount: 3, roles });
    await gateway.upstream.answerWith(
      prefilled(0),
      refusal(502, "no"),
      prefilled(992),
      answerOfMoved,
    );
    const body = { ...LONG.body, stream_options: { include_usage: true } };
    const events = await readEvents(await gateway.ask({ body }));
    expect(textOf(events)).toBe("well");
    // The second time it was there, since the first time it was computed: for this very request.
    const [usage] = events.map(({ data }) => Object(data).usage).filter(Boolean);
    expect(usage).toMatchObject({ prompt_tokens_details: { cached_tokens: 0 } });
    const ways = await waysOf(gateway);
    expect(ways.map(({ isPrefill }) => isPrefill)).toEqual([true, false, true, false]);
    expect(new Set([ways[1]?.address, ways[3]?.address])).toEqual(new Set([1, 2]));
    expect(ways[3]?.peer).toBe(gateway.upstream.endpointUrlOf(0));
    await becomesIdle(gateway);
    const { replicas } = await gateway.poolStatus();
    expect(replicas.map(({ outstanding }) => outstanding)).toEqual([0, 0, 0]);
  });
});

describe("a client that leaves", () => {
  const STAGES = [
    ["while its prompt is computed", [[HANG]], 1],
    ["while the other replica has not answered", [prefilled(0), [HANG]], 2],
    ["under way", [prefilled(0), [EVENT_STREAM_HEAD, ROLE_FRAME, tokenFrame("Once"), HANG]], 2],
  ] as const satisfies readonly (readonly [string, readonly (readonly UpstreamStep[])[], number])[];
  for (const [when, answers, requestCount] of STAGES) {
    test(`${when} leaves nothing behind`, async () => {
      const gateway = await aSplitGateway({ tenant: { concurrencyMax: 1 } });
      await gateway.upstream.answerWith(...answers);
      const client = new AbortController();
      const asked = gateway.ask({ ...LONG, signal: client.signal });
      asked.then((response) => response.text()).catch(() => {});
      await vi.waitFor(async () => {
        expect(await gateway.upstream.requests()).toHaveLength(requestCount);
      }, WAIT);
      client.abort();
      await becomesIdle(gateway);
      const { replicas } = await gateway.poolStatus();
      expect(replicas.map(({ outstanding }) => outstanding)).toEqual([0, 0]);
      await vi.waitFor(async () => {
        const requests = await gateway.upstream.requests();
        expect(requests.at(-1)?.closedEarly).toBe(true);
      }, WAIT);
      // The tenant's one place is free again.
      await gateway.upstream.answerWith(prefilled(0), streamedAnswer(["next"]));
      expect(textOf(await readEvents(await gateway.ask(LONG)))).toBe("next");
    });
  }
});

test("a short prompt goes to one replica alone", async () => {
  const gateway = await aSplitGateway();
  await gateway.upstream.answerWith(streamedAnswer(["short"]));
  expect(textOf(await readEvents(await gateway.ask({ body: { stream: true } })))).toBe("short");
  expect(await waysOf(gateway)).toEqual([{ address: 1, isPrefill: false, peer: undefined }]);
});

test("several choices are made where their prompt is computed", async () => {
  const gateway = await aSplitGateway();
  const message = { role: "assistant", content: "well" };
  const choices = [0, 1].map((index) => ({ index, message, finish_reason: "stop" }));
  await gateway.upstream.answerWith(refusal(200, { object: "chat.completion", choices }));
  const response = await gateway.ask({ body: { n: 2, messages: LONG_PROMPT } });
  expect(response.status).toBe(200);
  expect(await waysOf(gateway)).toEqual([{ address: 1, isPrefill: false, peer: undefined }]);
  expect(await outcomesOf(gateway)).toEqual(["abandoned"]);
});
