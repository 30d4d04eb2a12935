import { env } from "cloudflare:workers";
import { describe, expect, test } from "vitest";
import { ModelId } from "../../src/protocol/ids.ts";
import { settingsOf } from "../../workers/settings.ts";
import { refusal, streamThatGoesOn } from "./support/answers.ts";
import type { GatewayWish, TestGateway } from "./support/gateway.ts";
import {
  aGateway,
  becomesIdle,
  eventsOf,
  fetchGateway,
  readEvents,
  textOf,
} from "./support/gateway.ts";
import { chunkFrame, EVENT_STREAM_HEAD, streamedAnswer, wholeAnswer } from "./support/upstream.ts";

const KEEPS = { prompts: true, answers: true, scope: "tenant" } as const;
const GREEDY = { temperature: 0 };

const aKeepingGateway = (wish: GatewayWish = {}) =>
  aGateway({ tenant: { cache: KEEPS }, otherTenant: { cache: KEEPS }, ...wish });

/** Asks for a whole answer; returns its text and what is said of its being kept. */
async function ask(gateway: TestGateway, body: object = GREEDY, wish: object = {}) {
  const response = await gateway.ask({ body, ...wish });
  const text = await response.text();
  return { status: response.status, cache: response.headers.get("x-cache"), text, response };
}

async function asked(gateway: TestGateway): Promise<number> {
  return (await gateway.upstream.requests()).length;
}

describe("an answer that is kept", () => {
  test("is given again as it was, without a replica", async () => {
    const gateway = await aKeepingGateway();
    await gateway.upstream.answerWith(wholeAnswer("Once"), wholeAnswer("Twice"));
    const [first, again] = [await ask(gateway), await ask(gateway)];
    expect([first.cache, again.cache]).toEqual(["miss", "hit"]);
    expect(first.text).toContain("Once");
    expect(again.text).toBe(first.text);
    expect(again.response.headers.get("content-type")).toBe("application/json");
    expect(await asked(gateway)).toBe(1);
    await becomesIdle(gateway);
  });

  test("as a stream is given again as a stream, to its end", async () => {
    const gateway = await aKeepingGateway();
    await gateway.upstream.answerWith(streamedAnswer(["One ", "fox"]), streamedAnswer(["No"]));
    const body = { ...GREEDY, stream: true, stream_options: { include_usage: true } };
    const first = await gateway.ask({ body });
    const firstText = await first.text();
    const again = await gateway.ask({ body });
    expect([first, again].map(({ headers }) => headers.get("x-cache"))).toEqual(["miss", "hit"]);
    expect(again.headers.get("content-type")).toContain("text/event-stream");
    const againText = await again.text();
    expect(againText).toBe(firstText);
    const events = eventsOf(againText);
    expect(textOf(events)).toBe("One fox");
    expect(events.at(-1)?.data).toBe("[DONE]");
    expect(await asked(gateway)).toBe(1);
  });

  test("is another one for anything else in its request", async () => {
    const gateway = await aKeepingGateway();
    await gateway.upstream.answerWith(wholeAnswer("Yes"));
    await ask(gateway);
    const others = [
      { ...GREEDY, max_tokens: 5 },
      { ...GREEDY, seed: 1 },
      { ...GREEDY, messages: [{ role: "user", content: "Another story." }] },
      { ...GREEDY, cache_salt: "mine" },
      { ...GREEDY, user: "ann" },
    ];
    for (const body of others) {
      // oxlint-disable-next-line no-await-in-loop -- one after the other
      expect((await ask(gateway, body)).cache).toBe("miss");
    }
    expect(await asked(gateway)).toBe(1 + others.length);
  });

  test("is never another tenant's, nor anybody's whose key is not valid", async () => {
    const gateway = await aKeepingGateway();
    await gateway.upstream.answerWith(wholeAnswer("Yes"));
    await ask(gateway);
    expect((await ask(gateway, GREEDY, { key: gateway.otherKey })).cache).toBe("miss");
    const stranger = await ask(gateway, GREEDY, { key: "sk-test-nobody" });
    expect([stranger.status, stranger.cache]).toEqual([401, null]);
  });

  test("is gone with a purge, as soon as an edge has heard of it", async () => {
    const gateway = await aKeepingGateway();
    const url = `/admin/v1/tenants/${gateway.tenantId}/cache/purge`;
    const headers = { authorization: `Bearer ${settingsOf(env).adminKey}` };
    await gateway.upstream.answerWith(wholeAnswer("Yes"));
    await ask(gateway);
    expect((await ask(gateway)).cache).toBe("hit");
    await fetchGateway(url, { method: "POST", headers });
    await expect.poll(async () => (await ask(gateway)).cache, { timeout: 20_000 }).toBe("miss");
  });
});

describe("no answer is kept", () => {
  test("unless its tenant wants that", async () => {
    const gateway = await aGateway();
    await gateway.upstream.answerWith(wholeAnswer("Yes"));
    expect([(await ask(gateway)).cache, (await ask(gateway)).cache]).toEqual([null, null]);
    expect(await asked(gateway)).toBe(2);
  });

  test.each([
    ["leaves it to chance", {}, {}],
    ["is at a temperature", { temperature: 0.5 }, {}],
    ["wants nothing cached", { ...GREEDY, prompt_cache_options: { mode: "explicit" } }, {}],
    ["wants to be told its times", GREEDY, { headers: { "x-include-metrics": "1" } }],
    ["wants a pace", GREEDY, { headers: { "x-sluice-pace": "1" } }],
  ])("where its request %s", async (_, body, wish) => {
    const gateway = await aKeepingGateway();
    await gateway.upstream.answerWith(wholeAnswer("Yes"));
    await ask(gateway, body, wish);
    expect((await ask(gateway, body, wish)).cache).toBeNull();
    expect(await asked(gateway)).toBe(2);
  });

  test("that is an error", async () => {
    const gateway = await aKeepingGateway();
    await gateway.upstream.answerWith(refusal(400, "no"), wholeAnswer("Yes"));
    expect((await ask(gateway)).status).toBe(400);
    expect(await ask(gateway)).toMatchObject({ status: 200, cache: "miss" });
  });

  test.each([
    ["breaks off", [{ kind: "end" }]],
    [
      "ends with an error",
      [{ kind: "text", text: 'data: {"error":{"message":"x"}}\n\n' }, { kind: "end" }],
    ],
  ] as const)("of a stream that %s", async (_, ending) => {
    const gateway = await aKeepingGateway();
    const cut = [EVENT_STREAM_HEAD, chunkFrame({ delta: { content: "One " } }), ...ending];
    await gateway.upstream.answerWith([...cut], streamedAnswer(["One ", "fox"]));
    const body = { ...GREEDY, stream: true };
    await (await gateway.ask({ body })).text();
    const again = await gateway.ask({ body });
    expect(again.headers.get("x-cache")).toBe("miss");
    expect(textOf(await readEvents(again))).toBe("One fox");
  });

  test("that was cut short because there was no time for what was asked", async () => {
    const e2e = { percentileRatio: 0.99, limitMs: 3_000 };
    const overload = [{ kind: "clamp", outputTokensMax: 8 } as const];
    const gateway = await aKeepingGateway({ tenant: { cache: KEEPS, targets: { e2e }, overload } });
    await gateway.upstream.answerWith(wholeAnswer("short"));
    for (const body of [
      { ...GREEDY, max_tokens: 2_000 },
      { ...GREEDY, max_tokens: 2_000 },
    ]) {
      // oxlint-disable-next-line no-await-in-loop -- one after the other
      const { cache, response } = await ask(gateway, body);
      expect(response.headers.get("x-sluice-degraded")).toBe("clamp_max_tokens=8");
      expect(cache).toBe("miss");
    }
    expect(await asked(gateway)).toBe(2);
  });

  test("that another model gave", async () => {
    const small = ModelId.parse("small");
    const gateway = await aKeepingGateway({
      tenant: { cache: KEEPS, overload: [{ kind: "fallback", modelId: small }] },
      furtherModels: [{ modelId: small, upstreamModel: "small-upstream" }],
      pool: { modelLimits: [{ modelId: ModelId.parse("sluice-tiny"), requestsMax: 1 }] },
    });
    const running = streamThatGoesOn(["a"], { kind: "gate", name: "end" }, { kind: "end" });
    await gateway.upstream.answerWith(running, wholeAnswer("small"), wholeAnswer("Yes"));
    const first = await gateway.ask({ body: { stream: true, max_tokens: 8 } });
    const body = { ...GREEDY, max_tokens: 8 };
    const degraded = await ask(gateway, body);
    expect(degraded.response.headers.get("x-sluice-degraded")).toBe("fallback_model=small");
    await gateway.upstream.openGate("end");
    await first.text();
    await becomesIdle(gateway);
    expect(await ask(gateway, body)).toMatchObject({ status: 200, cache: "miss" });
    expect(await asked(gateway)).toBe(3);
  });
});
