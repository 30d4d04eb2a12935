import { describe, expect, test, vi } from "vitest";
import type { LivePool } from "../../src/tenants/live-configuration.ts";
import { streamThatGoesOn } from "./support/answers.ts";
import type { TestGateway } from "./support/gateway.ts";
import { aGateway, becomesIdle, readEvents, textOf, WAIT } from "./support/gateway.ts";
import { anUpstream, jsonAnswer, streamedAnswer, wholeAnswer } from "./support/upstream.ts";

const ACCESS = { idName: "QA_ACCESS_ID", secretName: "QA_ACCESS_SECRET" };
const TOKEN = {
  "cf-access-client-id": "sluice-local-id.access",
  "cf-access-client-secret": "sluice-local-secret-of-access",
};

const gatewayBy = (transport: LivePool["transport"], pool: Partial<LivePool> = {}) =>
  aGateway({
    guaranteedRatios: [0, 0],
    pool: { engine: "openai", ...pool, ...(transport !== undefined && { transport }) },
  });

const headersOf = async (gateway: TestGateway) =>
  (await gateway.upstream.requests()).map(({ headers }) => headers);

describe("the way to a pool's servers", () => {
  test("is a binding where the pool names one, for streams and for whole answers", async () => {
    const gateway = await gatewayBy({ via: "QA_VPC" });
    await gateway.upstream.answerWith(streamedAnswer(["by", " vpc"]), wholeAnswer("a"));
    const events = await readEvents(await gateway.ask({ body: { stream: true } }));
    expect(textOf(events)).toBe("by vpc");
    expect((await gateway.ask()).status).toBe(200);
    for (const headers of await headersOf(gateway)) expect(headers["x-came-by"]).toBe("vpc");
    await becomesIdle(gateway);
  });

  test("is the usual one where it names none, or on a developer's machine that has none", async () => {
    for (const transport of [undefined, { via: "NOT_BOUND_HERE" }]) {
      // oxlint-disable-next-line no-await-in-loop -- one after the other
      const gateway = await gatewayBy(transport);
      // oxlint-disable-next-line no-await-in-loop -- likewise
      await gateway.upstream.answerWith(wholeAnswer("a"));
      // oxlint-disable-next-line no-await-in-loop -- likewise
      expect((await gateway.ask()).status).toBe(200);
      // oxlint-disable-next-line no-await-in-loop -- likewise
      const [headers] = await headersOf(gateway);
      expect(headers).not.toHaveProperty("x-came-by");
      expect(headers).not.toHaveProperty("cf-access-client-id");
    }
  });

  test("shows a service token to whoever stands in front, beside the pool's bearer", async () => {
    const gateway = await gatewayBy(
      { via: "QA_VPC", access: ACCESS },
      { secretName: "QA_POOL_TOKEN" },
    );
    await gateway.upstream.answerWith(wholeAnswer("a"));
    expect((await gateway.ask()).status).toBe(200);
    expect((await headersOf(gateway))[0]).toMatchObject({
      ...TOKEN,
      "x-came-by": "vpc",
      authorization: "Bearer sluice-local-token-of-a-pool",
    });
  });

  test("is that of questions as well", async () => {
    const gateway = await gatewayBy({ via: "QA_VPC", access: ACCESS }, { engine: "llamacpp" });
    await gateway.upstream.saysOfItself({ "/health": jsonAnswer({}) });
    await gateway.upstream.answerWith(streamThatGoesOn(["a"], { kind: "hang" }));
    const left = new AbortController();
    const held = await gateway.ask({ body: { stream: true }, signal: left.signal });
    await vi.waitFor(async () => {
      const probed = await gateway.upstream.probed();
      expect(probed.length).toBeGreaterThanOrEqual(3);
      for (const { headers } of probed)
        expect(headers).toMatchObject({ ...TOKEN, "x-came-by": "vpc" });
    }, WAIT);
    left.abort();
    await held.body?.cancel().catch(() => {});
    await becomesIdle(gateway);
  });

  test("is that of our own engines as well, who are told what only they may know", async () => {
    const gateway = await aGateway({ pool: { transport: { via: "QA_VPC", access: ACCESS } } });
    await gateway.upstream.answerWith(wholeAnswer("a"));
    expect((await gateway.ask()).status).toBe(200);
    expect((await headersOf(gateway))[0]).toMatchObject({
      ...TOKEN,
      "x-came-by": "vpc",
      authorization: "Bearer sluice-local-replica-secret-of-the-tests",
    });
    await becomesIdle(gateway);
  });

  test("follows no redirect out of the configuration, and the token stays", async () => {
    const gateway = await gatewayBy({ access: ACCESS });
    const other = anUpstream();
    await other.answerWith(wholeAnswer("stolen"));
    const location = `${other.endpointUrlOf(0)}/v1/chat/completions`;
    await gateway.upstream.answerWith([
      { kind: "head", status: 302, headers: { location } },
      { kind: "end" },
    ]);
    expect((await gateway.ask()).status).toBe(502);
    expect(await other.requests()).toEqual([]);
  });

  test.each([
    [{ via: "POOLS" }, "POOLS is no binding that has a fetch"],
    [{ via: "QA_POOL_TOKEN" }, "QA_POOL_TOKEN is no binding that has a fetch"],
    [{ access: { ...ACCESS, idName: "NOBODY_SET_THIS" } }, "NOBODY_SET_THIS is missing"],
  ])(
    "that is not there asks nobody: of %o only the operator hears why",
    async (transport, fault) => {
      const log = vi.spyOn(console, "error").mockImplementation(() => {});
      const gateway = await gatewayBy(transport);
      const response = await gateway.ask();
      expect(response.status).toBe(503);
      const [name = ""] = fault.split(" ");
      const text = await response.text();
      expect(JSON.parse(text)).toMatchObject({ error: { code: "not_configured" } });
      expect(text).not.toContain(name);
      expect(await gateway.upstream.requests()).toEqual([]);
      const lines = log.mock.calls.map(([line]) => String(line)).join("\n");
      expect(lines).toContain(name);
      expect(lines).not.toContain("sluice-local");
      expect(await gateway.poolStatus()).toMatchObject({ secretFault: fault });
      await becomesIdle(gateway);
    },
  );
});
