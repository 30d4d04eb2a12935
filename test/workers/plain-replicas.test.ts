import { describe, expect, test, vi } from "vitest";
import { ModelId } from "../../src/protocol/ids.ts";
import type { SaidLimit } from "../../src/protocol/said-limit.ts";
import type { LivePool } from "../../src/tenants/live-configuration.ts";
import { refusal } from "./support/answers.ts";
import type { GatewayWish, TestGateway } from "./support/gateway.ts";
import { aGateway, becomesIdle, readEvents, textOf, WAIT } from "./support/gateway.ts";
import { streamedAnswer, wholeAnswer } from "./support/upstream.ts";

/** A gateway whose replicas are servers that dial in nowhere; nobody is guaranteed anything. */
const aPlainGateway = (
  pool: Partial<LivePool> = {},
  wish: GatewayWish = {},
): Promise<TestGateway> =>
  aGateway({ guaranteedRatios: [0, 0], ...wish, pool: { engine: "openai", ...pool } });

describe("a server that is not ours", () => {
  test("is asked at once, as it never says that it is there", async () => {
    const gateway = await aPlainGateway();
    await gateway.upstream.answerWith(streamedAnswer(["at", " once"]));
    const events = await readEvents(await gateway.ask({ body: { stream: true } }));
    expect(textOf(events)).toBe("at once");
    const [request] = await gateway.upstream.requests();
    expect(request?.path).toBe("/v1/chat/completions");
    await becomesIdle(gateway);
  });

  test("is sent no word and no secret of ours, and none of the client's", async () => {
    const gateway = await aPlainGateway();
    await gateway.upstream.answerWith(wholeAnswer("a"));
    await gateway.ask({
      headers: { cookie: "crumb=client", "x-api-key": "client-key", "x-gw-tenant": "made-up" },
    });
    const [request] = await gateway.upstream.requests();
    const headers = Object.entries(request?.headers ?? {});
    const own = headers.filter(([name]) => /^(x-|authorization|cookie|proxy-)/.test(name));
    expect(own).toEqual([]);
    expect(request?.headers).toMatchObject({
      "content-type": "application/json",
      traceparent: expect.stringMatching(/^00-[0-9a-f]{32}-[0-9a-f]{16}-0[01]$/),
    });
    expect(JSON.stringify(headers)).not.toMatch(/sluice-local|client|sk-test/);
  });

  test("is sent the secret that its pool names, and no other", async () => {
    const gateway = await aPlainGateway({ secretName: "QA_POOL_TOKEN" });
    await gateway.upstream.answerWith(wholeAnswer("a"));
    expect((await gateway.ask()).status).toBe(200);
    const [request] = await gateway.upstream.requests();
    expect(request?.headers["authorization"]).toBe("Bearer sluice-local-token-of-a-pool");
  });

  test.each([
    ["QA_POOL_TOKEN_WITH_BLANK", "must be printable ASCII without spaces"],
    ["NOBODY_SET_THIS", "is missing"],
    // A binding of another kind is no secret either.
    ["POOLS", "must be printable ASCII without spaces"],
  ])(
    "is not asked without its secret: of %s the client hears no more than that, the log which",
    async (secretName, details) => {
      const log = vi.spyOn(console, "error").mockImplementation(() => {});
      const gateway = await aPlainGateway({ secretName });
      const response = await gateway.ask();
      expect(response.status).toBe(503);
      const text = await response.text();
      expect(JSON.parse(text)).toMatchObject({ error: { code: "not_configured" } });
      expect(text).not.toContain(secretName);
      expect(await gateway.upstream.requests()).toEqual([]);
      const lines = log.mock.calls.map(([line]) => String(line)).join("\n");
      expect(lines).toContain(secretName);
      expect(lines).toContain(details);
      expect(lines).not.toContain("sluice-local token");
      // The administrator is told of all pools at once.
      const secretFault = `${secretName} ${details}`;
      expect(await gateway.poolStatus()).toMatchObject({ secretFault });
      await becomesIdle(gateway);
    },
  );

  test.each([
    ["plain text", refusal(503, "up-node-17: no process listening")],
    ["a string", refusal(503, { error: "no process listening on up-node-17" })],
    [
      "an error without an envelope",
      refusal(500, { object: "error", message: "up-node-17", code: 500 }),
    ],
  ])(
    "that fails with %s gets a clean error of ours, whichever way it is asked",
    async (_, steps) => {
      const gateway = await aPlainGateway({}, { replicaCount: 2 });
      await gateway.upstream.answerWith(steps);
      for (const stream of [false, true]) {
        // oxlint-disable-next-line no-await-in-loop -- one after the other
        const response = await gateway.ask({ body: { stream } });
        expect([502, 503]).toContain(response.status);
        expect(response.headers.get("content-type")).toBe("application/json");
        // oxlint-disable-next-line no-await-in-loop -- likewise
        const text = await response.text();
        expect(JSON.parse(text)).toMatchObject({ error: { message: expect.any(String) } });
        expect(text).not.toContain("up-node-17");
      }
      // Both were asked, both times: another server may be well.
      expect(await gateway.upstream.requests()).toHaveLength(4);
    },
  );

  test("is left alone after failures in a row, and gets a real request as its probe", async () => {
    const health = { ejectAfter: 2, cooldownMsMax: 100 };
    const gateway = await aPlainGateway({ health }, { replicaCount: 2 });
    const healths = async () => (await gateway.poolStatus()).replicas.map((each) => each.health);
    // Each call asks both, of which one fails and the other may not be ejected as well.
    await gateway.upstream.answerWith(refusal(503, "gone"));
    for (let count = 0; count < 2; count++) {
      // oxlint-disable-next-line no-await-in-loop -- in a row
      await gateway.ask();
    }
    expect((await healths()).filter((each) => each === "suspect")).toHaveLength(1);
    await gateway.upstream.answerWith(wholeAnswer("back"));
    await vi.waitFor(async () => {
      const answers = await Promise.all([gateway.ask(), gateway.ask()]);
      expect(answers.map(({ status }) => status)).toEqual([200, 200]);
      expect(await healths()).toEqual(["healthy", "healthy"]);
    }, WAIT);
  });
});

const heldOf = async (gateway: TestGateway) =>
  (await gateway.poolStatus()).replicas.map(({ heldForMs }) => heldForMs ?? 0);
const limited = (status: number, headers: Record<string, string>, steps = wholeAnswer("a")) => {
  const type = { "content-type": "application/json" };
  return [{ kind: "head", status, headers: { ...type, ...headers } } as const, ...steps.slice(1)];
};

/** Waits until the pool has heard of a limit, which may be over by the time that somebody looks. */
async function toldOnce(gateway: TestGateway, said: SaidLimit): Promise<void> {
  await vi.waitFor(async () => {
    const calls = (await gateway.decisions()).flatMap((record) => record.calls);
    const told = calls.flatMap(({ call }) => (call.kind === "limited" ? [call.said] : []));
    expect(told).toEqual([said]);
  }, WAIT);
}

describe("a server that tells its limits", () => {
  test("is left alone as long as its refusal says, and the client is served by another one", async () => {
    const gateway = await aPlainGateway({}, { replicaCount: 2 });
    await gateway.upstream.answerWith(limited(429, { "retry-after": "40" }), wholeAnswer("served"));
    expect((await gateway.ask()).status).toBe(200);
    const [refusedBy] = (await gateway.upstream.requests()).map(({ address }) => address);
    await vi.waitFor(async () => {
      const held = await heldOf(gateway);
      expect(held[refusedBy ?? 0]).toBeGreaterThan(30_000);
      expect(held.filter((ms) => ms > 0)).toHaveLength(1);
    }, WAIT);
    for (let count = 0; count < 4; count++) {
      // oxlint-disable-next-line no-await-in-loop -- one after the other
      expect((await gateway.ask()).status).toBe(200);
    }
    const later = (await gateway.upstream.requests()).slice(1);
    expect(later.map(({ address }) => address)).not.toContain(refusedBy);
    await becomesIdle(gateway);
  });

  test("is left alone once its quota is used up, by an answer that is good", async () => {
    const gateway = await aPlainGateway();
    const exhausted = {
      "x-ratelimit-remaining-requests": "0",
      "x-ratelimit-reset-requests": "300ms",
    };
    await gateway.upstream.answerWith(limited(200, exhausted), wholeAnswer("later"));
    const sentAtMs = Date.now();
    expect((await gateway.ask()).status).toBe(200);
    await toldOnce(gateway, { isRefused: false, holdOffMs: 300 });
    // Who comes meanwhile waits, and is served when it is over.
    expect((await gateway.ask()).status).toBe(200);
    expect(Date.now() - sentAtMs).toBeGreaterThanOrEqual(300);
    expect(await gateway.upstream.requests()).toHaveLength(2);
    await becomesIdle(gateway);
  });

  test("is asked again a second after a refusal that says nothing", async () => {
    const gateway = await aPlainGateway();
    await gateway.upstream.answerWith(limited(429, {}), wholeAnswer("a"));
    expect([429, 503]).toContain((await gateway.ask()).status);
    await toldOnce(gateway, { isRefused: true, holdOffMs: 1_000 });
    expect((await heldOf(gateway))[0]).toBeLessThanOrEqual(1_000);
    await becomesIdle(gateway);
  });
});

describe("a model of which only so many requests may run", () => {
  test("has the others wait, over all servers of its pool", async () => {
    const modelLimits = [{ modelId: ModelId.parse("narrow"), requestsMax: 1 }];
    const gateway = await aPlainGateway({ modelLimits }, { replicaCount: 2, modelId: "narrow" });
    await gateway.upstream.answerWith([{ kind: "gate", name: "first" }, ...wholeAnswer("a")]);
    const asked = [gateway.ask(), gateway.ask(), gateway.ask()];
    await vi.waitFor(async () => {
      expect(await gateway.poolStatus()).toMatchObject({ leases: 1, queued: 2 });
    }, WAIT);
    expect(await gateway.upstream.requests()).toHaveLength(1);
    await gateway.upstream.openGate("first");
    const answers = await Promise.all(asked);
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200]);
    await becomesIdle(gateway);
  });

  test("serves the less urgent tenant in the end, however many urgent requests come", async () => {
    const modelLimits = [{ modelId: ModelId.parse("narrow"), requestsMax: 1 }];
    const gateway = await aPlainGateway({ modelLimits }, { modelId: "narrow", bands: [0, 1] });
    await gateway.upstream.answerWith([{ kind: "pause", ms: 150 }, ...wholeAnswer("served")]);
    const served = new AbortController();
    const urgent: Promise<Response>[] = [];
    let unanswered = 0;
    const askUrgently = (): void => {
      unanswered += 1;
      urgent.push(gateway.ask().finally(() => (unanswered -= 1)));
    };
    let unansweredThen = 0;
    for (let count = 0; count < 4; count++) askUrgently();
    const background = gateway.ask({ key: gateway.otherKey }).finally(() => {
      unansweredThen = unanswered;
      served.abort();
    });
    while (!served.signal.aborted) {
      // oxlint-disable-next-line no-await-in-loop -- one more for each that is served
      await Promise.race([urgent.shift(), background]);
      askUrgently();
    }
    expect((await background).status).toBe(200);
    // Others waited when it was served: it was its turn, and not merely the last one there.
    expect(unansweredThen).toBeGreaterThan(1);
    await Promise.all(urgent);
  });
});
